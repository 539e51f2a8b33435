/* Decodes fedplug payloads: plain C99, one source file, no dependencies.
 *
 * docs/wire-format.md is the norm of the bytes, and says how to build and use
 * this reader. It reads the wire ids
 *
 *   identity/1, float16/1, bfloat16/1
 *   qsgd/1, bfp/1, sign/1                            or any of them +rans/1
 *   sparse/1, alone or with one of the values above  e.g. sparse/1+qsgd/1+rans/1
 *
 * Payloads are untrusted. Every byte is checked, and nothing outside of the
 * given buffers is read or written. Nothing is allocated. Functions use less
 * than 8 KB of stack, have no state, and may run on any thread.
 */
#ifndef FEDPLUG_DECODE_H_
#define FEDPLUG_DECODE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  FEDPLUG_OK = 0,
  FEDPLUG_CORRUPT = 1,  /* no encoder writes these bytes */
  FEDPLUG_UNKNOWN = 2,  /* the format or the wire id is not known here */
  FEDPLUG_TOO_SMALL = 3 /* the given buffer is too small */
} fedplug_status;

typedef enum {
  FEDPLUG_FLOAT32 = 1,
  FEDPLUG_FLOAT64 = 2,
  FEDPLUG_FLOAT16 = 3,
  FEDPLUG_BFLOAT16 = 4,
  FEDPLUG_INT8 = 5,
  FEDPLUG_INT16 = 6,
  FEDPLUG_INT32 = 7,
  FEDPLUG_INT64 = 8,
  FEDPLUG_UINT8 = 9,
  FEDPLUG_UINT16 = 10,
  FEDPLUG_UINT32 = 11,
  FEDPLUG_UINT64 = 12,
  FEDPLUG_BOOL = 13
} fedplug_dtype;

enum { FEDPLUG_MAX_RANK = 32, FEDPLUG_MAX_WIRE_ID = 64 };

/* The contents of a container. `body` points into the container. */
typedef struct {
  char wire_id[FEDPLUG_MAX_WIRE_ID + 1]; /* ends with a zero byte */
  fedplug_dtype dtype;
  int rank;
  uint32_t shape[FEDPLUG_MAX_RANK];
  uint64_t elements;    /* the product of the shape */
  uint64_t array_bytes; /* of the decoded array; untrusted, so limit it */
  const uint8_t* body;
  size_t body_bytes;
} fedplug_payload;

/* Reads the container data[bytes] and verifies its checksum. `data` must stay
 * as it is until the last use of `payload`. */
fedplug_status fedplug_open(const uint8_t* data, size_t bytes,
                            fedplug_payload* payload);

/* Decodes an opened payload into `array`, which has `array_bytes` bytes or
 * more: the elements in row-major order and the byte order of the machine.
 * float16 and bfloat16 are written as their 16 bits. Elements that were not
 * sent are 0. After a refusal the array holds anything.
 *
 * It reads every byte of the body once, and writes every element. */
fedplug_status fedplug_decode(const fedplug_payload* payload, void* array,
                              size_t array_bytes);

#ifdef __cplusplus
}
#endif

#endif /* FEDPLUG_DECODE_H_ */
