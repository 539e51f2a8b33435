#include "fedplug_decode.h"

#include <float.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0 || defined(__FAST_MATH__)
#error "float must be computed as float: use SSE2 on x86, and no fast math"
#endif

/* Numbers in bytes, little-endian. */

static uint64_t read_number(const uint8_t* data, size_t bytes) {
  uint64_t number = 0;
  size_t i;
  for (i = bytes; i > 0; --i) number = number << 8 | data[i - 1];
  return number;
}

static uint32_t read_u32(const uint8_t* data) {
  return (uint32_t)read_number(data, 4);
}

/* The unread bytes of a field. */
typedef struct {
  const uint8_t* data;
  size_t bytes;
} span;

/* Takes bytes from the front; 0 if there are too few. */
static int take(span* from, uint64_t bytes, span* taken) {
  if (bytes > from->bytes) return 0;
  taken->data = from->data;
  taken->bytes = (size_t)bytes;
  from->data += bytes;
  from->bytes -= (size_t)bytes;
  return 1;
}

/* Takes a varint below 2^31, in the fewest bytes. */
static int take_varint(span* from, uint32_t* number) {
  uint64_t value = 0;
  span byte;
  int shift;
  for (shift = 0; shift < 35; shift += 7) {
    if (!take(from, 1, &byte)) return 0;
    value |= (uint64_t)(byte.data[0] & 127u) << shift;
    if (byte.data[0] < 128) {
      *number = (uint32_t)value;
      return value < (uint64_t)1 << 31 && (shift == 0 || byte.data[0] != 0);
    }
  }
  return 0;
}

/* Containers */

static uint32_t crc32_of(const uint8_t* data, size_t bytes) {
  uint32_t table[256];
  uint32_t crc = 0xffffffffu;
  uint32_t byte;
  size_t i;
  for (byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    int bit;
    for (bit = 0; bit < 8; ++bit) {
      rest = rest >> 1 ^ ((rest & 1) != 0 ? 0xedb88320u : 0);
    }
    table[byte] = rest;
  }
  for (i = 0; i < bytes; ++i) crc = crc >> 8 ^ table[(crc ^ data[i]) & 255];
  return ~crc;
}

/* Bytes per element; 0 if there is no such dtype. */
static unsigned item_bytes(unsigned dtype) {
  static const uint8_t bytes[] = {0, 4, 8, 2, 2, 1, 2, 4, 8, 1, 2, 4, 8, 1};
  return dtype < sizeof(bytes) ? bytes[dtype] : 0;
}

fedplug_status fedplug_open(const uint8_t* data, size_t bytes,
                            fedplug_payload* payload) {
  const uint64_t most = INT64_MAX;
  span rest = {data, bytes};
  span head, id, dimensions, length, body, checksum;
  uint64_t size;
  size_t i;
  int empty = 0;

  if (!take(&rest, 8, &head) || memcmp(head.data, "FPLG", 4) != 0) {
    return FEDPLUG_CORRUPT;
  }
  if (head.data[4] != 1) return FEDPLUG_UNKNOWN;
  size = item_bytes(head.data[5]);
  if (size == 0 || head.data[6] < 1 || head.data[6] > FEDPLUG_MAX_WIRE_ID ||
      head.data[7] > FEDPLUG_MAX_RANK) {
    return FEDPLUG_CORRUPT;
  }
  if (!take(&rest, head.data[6], &id) ||
      !take(&rest, 4u * head.data[7], &dimensions) ||
      !take(&rest, 8, &length) ||
      !take(&rest, read_number(length.data, 8), &body) ||
      !take(&rest, 4, &checksum) || rest.bytes != 0 ||
      read_u32(checksum.data) != crc32_of(data, bytes - 4)) {
    return FEDPLUG_CORRUPT;
  }

  memset(payload, 0, sizeof(*payload));
  payload->dtype = (fedplug_dtype)head.data[5];
  payload->rank = head.data[7];
  payload->body = body.data;
  payload->body_bytes = body.bytes;
  for (i = 0; i < id.bytes; ++i) {
    if (id.data[i] > 127) return FEDPLUG_CORRUPT;
    if (id.data[i] == 0) return FEDPLUG_UNKNOWN;
    payload->wire_id[i] = (char)id.data[i];
  }
  for (i = 0; i < head.data[7]; ++i) {
    const uint32_t dimension = read_u32(dimensions.data + 4 * i);
    payload->shape[i] = dimension;
    if (dimension == 0) {
      empty = 1;
    } else if (size > most / dimension) {
      return FEDPLUG_CORRUPT;
    } else {
      size *= dimension;
    }
  }
  payload->array_bytes = empty ? 0 : size;
  payload->elements = payload->array_bytes / item_bytes(head.data[5]);
  return FEDPLUG_OK;
}

/* Packed numbers of 0 to 31 bits. */

typedef struct {
  const uint8_t* data;
  uint64_t position; /* in bits */
  unsigned width;
} packed_numbers;

static uint64_t packed_bytes(uint64_t count, unsigned width) {
  return (count * width + 7) / 8;
}

/* 0 if the bytes are not `count` numbers, or an unused bit is set. */
static int open_packed(packed_numbers* numbers, span from, uint64_t count,
                       unsigned width) {
  const uint64_t bits = count * width;
  if (from.bytes != packed_bytes(count, width)) return 0;
  numbers->data = from.data;
  numbers->position = 0;
  numbers->width = width;
  return bits % 8 == 0 || from.data[bits / 8] >> (bits % 8) == 0;
}

/* Must not be called more often than there are numbers. */
static uint32_t next_packed(packed_numbers* numbers) {
  const uint64_t end = numbers->position + numbers->width;
  const size_t first = (size_t)(numbers->position / 8);
  const size_t last = (size_t)((end + 7) / 8);
  const uint64_t bits = read_number(numbers->data + first, last - first);
  const unsigned skipped = (unsigned)(numbers->position % 8);
  numbers->position = end;
  return (uint32_t)(bits >> skipped & (((uint64_t)1 << numbers->width) - 1));
}

/* rice/1: ascending indices by their gaps. */

typedef struct {
  packed_numbers low;
  span high;
  uint64_t position; /* in bits of `high` */
  uint64_t next;     /* the smallest index that may come */
  uint64_t size;     /* all indices are below it */
  uint64_t count;
  unsigned p;
  uint64_t sums[3]; /* of the gaps / 2^(p - 1), / 2^p and / 2^(p + 1) */
} rice_indices;

static int open_rice(rice_indices* indices, span code, uint64_t count,
                     uint64_t size) {
  span field;
  memset(indices, 0, sizeof(*indices));
  indices->size = size;
  indices->count = count;
  if (count == 0) return code.bytes == 0;
  if (!take(&code, 1, &field) || field.data[0] > 30) return 0;
  indices->p = field.data[0];
  if (!take(&code, packed_bytes(count, indices->p), &field) ||
      !open_packed(&indices->low, field, count, indices->p)) {
    return 0;
  }
  indices->high = code;
  return 1;
}

/* 0 if there is no further index below the size. */
static int next_rice(rice_indices* indices, uint64_t* index) {
  const uint64_t end = (uint64_t)8 * indices->high.bytes;
  const unsigned p = indices->p;
  const uint64_t begin = indices->position;
  uint64_t at = begin;
  uint64_t zeros, gap, room;
  for (;;) {
    if (at >= end) return 0;
    if (at % 8 == 0 && indices->high.data[at / 8] == 0) {
      at += 8;
    } else if ((indices->high.data[at / 8] >> (at % 8) & 1) == 0) {
      ++at;
    } else {
      break;
    }
  }
  zeros = at - begin;
  indices->position = at + 1;
  if (indices->next >= indices->size) return 0;
  room = indices->size - 1 - indices->next;
  if (zeros > room >> p) return 0;
  gap = zeros << p | next_packed(&indices->low);
  if (gap > room) return 0;
  *index = indices->next + gap;
  indices->next = *index + 1;
  indices->sums[0] += p == 0 ? 0 : gap >> (p - 1);
  indices->sums[1] += zeros;
  indices->sums[2] += zeros >> 1;
  return 1;
}

/* Whether the code ends here, and p is the smallest of the best ones. */
static int close_rice(const rice_indices* indices) {
  const uint64_t end = indices->position;
  const uint64_t* sums = indices->sums;
  if (indices->count == 0) return 1;
  if ((end + 7) / 8 != indices->high.bytes) return 0;
  if (end % 8 != 0 && indices->high.data[end / 8] >> (end % 8) != 0) return 0;
  return (indices->p == 0 || sums[0] > indices->count + sums[1]) &&
         (indices->p == 30 || sums[2] + indices->count >= sums[1]);
}

/* Symbols of a quantizer: packed, or in a rans/1 code. */

typedef struct {
  int coded;
  packed_numbers packed;
  unsigned lanes;
  unsigned lane;
  span words;
  uint32_t states[32];
  uint16_t frequencies[256];
  uint16_t starts[256];
  uint8_t symbols[4096]; /* by the residue of a state */
} symbol_reader;

static int read_frequencies(symbol_reader* reader, span table, unsigned bits) {
  const unsigned bars = (1u << bits) - 1;
  rice_indices places;
  unsigned symbol;
  uint64_t begin = 0; /* the sum of the frequencies so far */
  if (!open_rice(&places, table, bars, 4096 + bars)) return 0;
  for (symbol = 0; symbol <= bars; ++symbol) {
    uint64_t end = 4096;
    if (symbol < bars) {
      uint64_t place;
      if (!next_rice(&places, &place)) return 0;
      end = place - symbol;
      if (end > 4096) return 0;
    }
    reader->starts[symbol] = (uint16_t)begin;
    reader->frequencies[symbol] = (uint16_t)(end - begin);
    memset(reader->symbols + begin, (int)symbol, (size_t)(end - begin));
    begin = end;
  }
  return close_rice(&places);
}

static int open_symbols(symbol_reader* reader, span code, uint64_t count,
                        unsigned bits, int coded) {
  span field;
  unsigned lane;
  reader->coded = 0;
  if (coded) {
    if (!take(&code, 1, &field)) return 0;
    reader->coded = field.data[0] != 0;
  }
  if (!reader->coded) return open_packed(&reader->packed, code, count, bits);

  if (count == 0 || !take(&code, field.data[0], &field) ||
      !read_frequencies(reader, field, bits)) {
    return 0;
  }
  reader->lanes = count < 65536 ? 4 : 32;
  reader->lane = 0;
  if (!take(&code, 4u * reader->lanes, &field) || code.bytes % 2 != 0) return 0;
  for (lane = 0; lane < reader->lanes; ++lane) {
    reader->states[lane] = read_u32(field.data + 4 * lane);
    if (reader->states[lane] < 65536) return 0;
  }
  reader->words = code;
  return 1;
}

/* 0 if a word is missing. Must not be called more often than there are
 * symbols. */
static int next_symbol(symbol_reader* reader, unsigned* symbol) {
  uint32_t x, residue;
  if (!reader->coded) {
    *symbol = next_packed(&reader->packed);
    return 1;
  }
  x = reader->states[reader->lane];
  residue = x % 4096;
  *symbol = reader->symbols[residue];
  x = reader->frequencies[*symbol] * (x / 4096) + residue -
      reader->starts[*symbol];
  if (x < 65536) {
    span word;
    if (!take(&reader->words, 2, &word)) return 0;
    x = x << 16 | (uint32_t)read_number(word.data, 2);
  }
  reader->states[reader->lane] = x;
  reader->lane = (reader->lane + 1) % reader->lanes;
  return 1;
}

static int close_symbols(const symbol_reader* reader) {
  unsigned lane;
  if (!reader->coded) return 1;
  for (lane = 0; lane < reader->lanes; ++lane) {
    if (reader->states[lane] != 65536) return 0;
  }
  return reader->words.bytes == 0;
}

/* Floating-point numbers */

static float float_of(uint32_t bits) {
  float number;
  memcpy(&number, &bits, sizeof(number));
  return number;
}

static double double_of(uint64_t bits) {
  double number;
  memcpy(&number, &bits, sizeof(number));
  return number;
}

static uint32_t bits_of(float number) {
  uint32_t bits;
  memcpy(&bits, &number, sizeof(bits));
  return bits;
}

/* The bits of the infinity of a dtype. */
static uint64_t infinity_of(fedplug_dtype dtype) {
  switch (dtype) {
    case FEDPLUG_FLOAT64:
      return 0x7ff0000000000000u;
    case FEDPLUG_FLOAT32:
      return 0x7f800000u;
    case FEDPLUG_FLOAT16:
      return 0x7c00u;
    default:
      return 0x7f80u;
  }
}

static int is_float(fedplug_dtype dtype) {
  return dtype >= FEDPLUG_FLOAT32 && dtype <= FEDPLUG_BFLOAT16;
}

static uint64_t without_sign(uint64_t bits, fedplug_dtype dtype) {
  return bits & (((uint64_t)1 << (8 * item_bytes(dtype) - 1)) - 1);
}

static int is_finite(uint64_t bits, fedplug_dtype dtype) {
  return without_sign(bits, dtype) < infinity_of(dtype);
}

static float half_to_float(uint32_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude < 0x400u) { /* a multiple of 2^-24 */
    return float_of(sign | bits_of((float)magnitude / 16777216.0f));
  }
  return float_of(sign | ((magnitude << 13) + (112u << 23)));
}

/* A finite number as float32, exactly. */
static float to_float(uint64_t bits, fedplug_dtype dtype) {
  if (dtype == FEDPLUG_FLOAT16) return half_to_float((uint32_t)bits);
  if (dtype == FEDPLUG_BFLOAT16) return float_of((uint32_t)bits << 16);
  return float_of((uint32_t)bits);
}

/* bits / 2^shift, to nearest, ties to even. */
static uint32_t shift_rounded(uint32_t bits, unsigned shift) {
  const uint32_t odd = bits >> shift & 1;
  return (bits + (1u << (shift - 1)) - 1 + odd) >> shift;
}

static uint32_t half_of(uint32_t magnitude) {
  if (magnitude >= 0x477fe000u) return 0x7bffu; /* the largest number */
  if (magnitude >= 0x38800000u) {
    return shift_rounded(magnitude - (112u << 23), 13);
  }
  if (magnitude < 0x33000000u) return 0; /* below 2^-25 */
  return shift_rounded((magnitude & 0x7fffffu) | 0x800000u,
                       126u - (magnitude >> 23));
}

/* The bits of the nearest number of a 16-bit dtype, at most the largest. */
static uint64_t narrowed(float number, fedplug_dtype dtype) {
  const uint32_t bits = bits_of(number);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t narrow;
  if (dtype == FEDPLUG_FLOAT16) return sign | half_of(magnitude);
  narrow = shift_rounded(magnitude, 16);
  return sign | (narrow >= 0x7f80u ? 0x7f7fu : narrow);
}

/* Values: the quantizers. */

typedef enum { RAW, FLOAT16, BFLOAT16, QSGD, BFP, SIGN } quantizer;

typedef struct {
  quantizer kind;
  fedplug_dtype dtype;
  unsigned width;  /* bytes of an element */
  uint64_t number; /* of the next value */
  unsigned log2_block;
  int top;      /* L */
  span numbers; /* the values, scales or exponents */
  symbol_reader symbols;
} value_reader;

static int is_scale(uint64_t bits, fedplug_dtype dtype) {
  return bits < infinity_of(dtype); /* neither -0 nor a negative number */
}

static int is_exponent(int exponent, fedplug_dtype dtype) {
  if (dtype == FEDPLUG_FLOAT64) return exponent >= -1021 && exponent <= 1023;
  if (dtype == FEDPLUG_FLOAT16) return exponent >= -24 && exponent <= 15;
  return exponent >= -125 && exponent <= 127;
}

static int exponent_at(span exponents, uint64_t i) {
  const int number = (int)read_number(exponents.data + 2 * i, 2);
  return number < 32768 ? number : number - 65536;
}

/* Takes the fields of `count` values before their symbols. */
static int open_blocks(value_reader* values, span* code, uint64_t count,
                       unsigned* bits) {
  const unsigned width = values->kind == BFP ? 2 : values->width;
  uint64_t blocks, i;
  span head;
  if (!take(code, 2, &head) || head.data[0] < 2 || head.data[0] > 8 ||
      head.data[1] > 20) {
    return 0;
  }
  *bits = head.data[0];
  values->top = (1 << (*bits - 1)) - 1;
  values->log2_block = head.data[1];
  blocks = (count + (1u << head.data[1]) - 1) >> head.data[1];
  if (!take(code, blocks * width, &values->numbers)) return 0;
  for (i = 0; i < blocks; ++i) {
    const uint8_t* const at = values->numbers.data + i * width;
    if (values->kind == BFP
            ? !is_exponent(exponent_at(values->numbers, i), values->dtype)
            : !is_scale(read_number(at, width), values->dtype)) {
      return 0;
    }
  }
  return 1;
}

static int open_values(value_reader* values, span code, uint64_t count,
                       quantizer kind, fedplug_dtype dtype, int coded) {
  unsigned bits = 1;
  values->kind = kind;
  values->dtype = dtype;
  values->width = item_bytes(dtype);
  values->number = 0;
  if (kind == RAW || kind == FLOAT16 || kind == BFLOAT16) {
    values->numbers = code;
    return code.bytes == count * (kind == RAW ? values->width : 2);
  }
  if (kind == SIGN) {
    uint64_t scale;
    values->log2_block = 63;
    values->top = 1;
    if (!take(&code, values->width, &values->numbers)) return 0;
    scale = read_number(values->numbers.data, values->width);
    if (!is_scale(scale, dtype) || (count == 0 && scale != 0)) return 0;
  } else if (!open_blocks(values, &code, count, &bits)) {
    return 0;
  }
  return open_symbols(&values->symbols, code, count, bits, coded);
}

static int close_values(const value_reader* values) {
  return values->kind < QSGD || close_symbols(&values->symbols);
}

/* The bits of a level times a scale or a power of two. */
static uint64_t level_of(const value_reader* values, int level,
                         uint64_t block) {
  const int wide = values->dtype == FEDPLUG_FLOAT64;
  const uint64_t scale =
      values->kind == BFP
          ? 0
          : read_number(values->numbers.data + block * values->width,
                        values->width);
  double product;
  float single;
  uint64_t bits;
  if (values->kind == BFP) {
    const int exponent = exponent_at(values->numbers, block);
    product = level * double_of((uint64_t)(exponent + 1023) << 52);
    if (product > DBL_MAX) product = DBL_MAX;
    if (product < -DBL_MAX) product = -DBL_MAX;
    if (!wide && product > FLT_MAX) product = FLT_MAX;
    if (!wide && product < -FLT_MAX) product = -FLT_MAX;
    single = wide ? 0.0f : (float)product;
  } else if (wide) {
    product = double_of(scale) * ((double)level / values->top);
    single = 0.0f;
  } else {
    product = 0.0;
    single =
        to_float(scale, values->dtype) * ((float)level / (float)values->top);
  }
  if (wide) {
    memcpy(&bits, &product, sizeof(bits));
    return bits;
  }
  return values->width == 2 ? narrowed(single, values->dtype) : bits_of(single);
}

/* The bits of the next value; 0 if there is none, or it is not finite. Must not
 * be called more often than there are values. */
static int next_value(value_reader* values, uint64_t* bits) {
  const uint64_t i = values->number++;
  unsigned symbol;
  int level;
  if (values->kind == RAW) {
    *bits =
        read_number(values->numbers.data + i * values->width, values->width);
    if (values->dtype == FEDPLUG_BOOL) return *bits <= 1;
    return !is_float(values->dtype) || is_finite(*bits, values->dtype);
  }
  if (values->kind == FLOAT16 || values->kind == BFLOAT16) {
    const fedplug_dtype from =
        values->kind == FLOAT16 ? FEDPLUG_FLOAT16 : FEDPLUG_BFLOAT16;
    const uint64_t narrow = read_number(values->numbers.data + 2 * i, 2);
    float single;
    double wide;
    if (!is_finite(narrow, from)) return 0;
    single = to_float(narrow, from);
    wide = (double)single;
    if (values->dtype == FEDPLUG_FLOAT64) {
      memcpy(bits, &wide, sizeof(wide));
    } else {
      *bits = values->width == 2 ? narrowed(single, values->dtype)
                                 : bits_of(single);
    }
    return 1;
  }
  if (!next_symbol(&values->symbols, &symbol)) return 0;
  level =
      values->kind == SIGN ? 2 * (int)symbol - 1 : (int)symbol - values->top;
  if (level > values->top) return 0;
  *bits = level_of(values, level, i >> values->log2_block);
  return 1;
}

/* Whole arrays */

static void put(void* array, uint64_t i, uint64_t bits, unsigned width) {
  uint8_t* const to = (uint8_t*)array + i * width;
  const uint8_t byte = (uint8_t)bits;
  const uint16_t two = (uint16_t)bits;
  const uint32_t four = (uint32_t)bits;
  switch (width) {
    case 1:
      memcpy(to, &byte, sizeof(byte));
      break;
    case 2:
      memcpy(to, &two, sizeof(two));
      break;
    case 4:
      memcpy(to, &four, sizeof(four));
      break;
    default:
      memcpy(to, &bits, sizeof(bits));
  }
}

/* The stages that a wire id names. */
typedef struct {
  int sparse;
  int coded;
  quantizer kind;
} stages;

/* Takes a name up to a "+" or the end; 0 if another one comes. */
static int take_name(const char** id, const char* name) {
  const size_t length = strlen(name);
  if (strncmp(*id, name, length) != 0) return 0;
  if ((*id)[length] == '\0') {
    *id += length;
    return 1;
  }
  if ((*id)[length] != '+' || (*id)[length + 1] == '\0') return 0;
  *id += length + 1;
  return 1;
}

/* 0 if the wire id is not known here. */
static int read_wire_id(const char* id, stages* found) {
  static const char* const names[] = {"identity/1", "float16/1", "bfloat16/1",
                                      "qsgd/1",     "bfp/1",     "sign/1"};
  int kind;
  found->kind = RAW;
  found->coded = 0;
  found->sparse = take_name(&id, "sparse/1");
  for (kind = found->sparse ? FLOAT16 : RAW; kind <= SIGN; ++kind) {
    if (!take_name(&id, names[kind])) continue;
    found->kind = (quantizer)kind;
    if (found->kind >= QSGD) found->coded = take_name(&id, "rans/1");
    return *id == '\0';
  }
  return found->sparse && *id == '\0';
}

static int decode_sparse(span body, value_reader* values, const stages* how,
                         const fedplug_payload* payload, void* array) {
  rice_indices indices;
  uint32_t count, code_bytes;
  uint64_t i;
  span code;
  if (!take_varint(&body, &count) || count > payload->elements ||
      !take_varint(&body, &code_bytes) || !take(&body, code_bytes, &code) ||
      !open_rice(&indices, code, count, payload->elements) ||
      !open_values(values, body, count, how->kind, payload->dtype,
                   how->coded)) {
    return 0;
  }
  if (payload->array_bytes > 0) {
    memset(array, 0, (size_t)payload->array_bytes);
  }
  for (i = 0; i < count; ++i) {
    uint64_t index, bits;
    if (!next_rice(&indices, &index) || !next_value(values, &bits)) return 0;
    put(array, index, bits, values->width);
  }
  return close_rice(&indices) && close_values(values);
}

static int decode_dense(span body, value_reader* values, const stages* how,
                        const fedplug_payload* payload, void* array) {
  uint64_t i;
  if (!open_values(values, body, payload->elements, how->kind, payload->dtype,
                   how->coded)) {
    return 0;
  }
  for (i = 0; i < payload->elements; ++i) {
    uint64_t bits;
    if (!next_value(values, &bits)) return 0;
    put(array, i, bits, values->width);
  }
  return close_values(values);
}

fedplug_status fedplug_decode(const fedplug_payload* payload, void* array,
                              size_t array_bytes) {
  const span body = {payload->body, payload->body_bytes};
  const int identity = strcmp(payload->wire_id, "identity/1") == 0;
  value_reader values;
  stages how;
  int good;
  if (!read_wire_id(payload->wire_id, &how)) return FEDPLUG_UNKNOWN;
  if (!identity &&
      (!is_float(payload->dtype) || payload->elements > INT32_MAX)) {
    return FEDPLUG_CORRUPT;
  }
  if (array_bytes < payload->array_bytes) return FEDPLUG_TOO_SMALL;
  good = how.sparse ? decode_sparse(body, &values, &how, payload, array)
                    : decode_dense(body, &values, &how, payload, array);
  return good ? FEDPLUG_OK : FEDPLUG_CORRUPT;
}
