# Toolchain of the released wheels: the Clang and the C libraries of the PyPI package ziglang, whose python-zig is
# FEDPLUG_ZIG in the environment, for the system FEDPLUG_TARGET, for instance x86_64-linux-gnu.2.17 (manylinux2014),
# aarch64-linux-musl, aarch64-macos.11.0 or x86_64-windows-gnu. libc++ is linked statically, so a wheel needs the C library
# of that system and nothing of the machine that compiled it.
set(zig_target -target $ENV{FEDPLUG_TARGET})
string(REPLACE - ";" zig_parts $ENV{FEDPLUG_TARGET})
list(GET zig_parts 0 CMAKE_SYSTEM_PROCESSOR)
list(GET zig_parts 1 zig_system)
set(CMAKE_SYSTEM_NAME Linux)
if(zig_system MATCHES "^macos")
  set(CMAKE_SYSTEM_NAME Darwin)
elseif(zig_system STREQUAL "windows")
  set(CMAKE_SYSTEM_NAME Windows)
endif()
set(CMAKE_CXX_COMPILER $ENV{FEDPLUG_ZIG} c++ ${zig_target})
# The archiver of this machine knows only this machine's objects.
set(CMAKE_CXX_ARCHIVE_CREATE "$ENV{FEDPLUG_ZIG} ar qcs <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_APPEND "$ENV{FEDPLUG_ZIG} ar qs <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "")

# The unwinder is not Zig's: Python ends daemon threads with glibc's pthread_exit, which unwinds their stacks with libgcc_s,
# and code from another unwinder would crash in it. The module is linked against this stand-in for libgcc_s.so.1.
if(zig_target MATCHES "linux-gnu")
  set(unwinder "${CMAKE_BINARY_DIR}/libgcc_s.so.1")
  file(WRITE "${unwinder}.c" "")
  foreach(name DeleteException GetIP GetLanguageSpecificData GetRegionStart RaiseException Resume SetGR SetIP)
    file(APPEND "${unwinder}.c" "void _Unwind_${name}(void) {}\n")
  endforeach()
  execute_process(COMMAND $ENV{FEDPLUG_ZIG} cc ${zig_target} -shared -Wl,-soname,libgcc_s.so.1 -o "${unwinder}"
                          "${unwinder}.c" COMMAND_ERROR_IS_FATAL ANY)
  set(CMAKE_MODULE_LINKER_FLAGS_INIT "\"${unwinder}\" -s")
elseif(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  set(CMAKE_MODULE_LINKER_FLAGS_INIT -s) # debugging information of libc++ would be 18 of 20 MB
elseif(CMAKE_SYSTEM_NAME STREQUAL "Darwin")
  set(CMAKE_MODULE_LINKER_FLAGS_INIT "-dynamiclib") # Zig's linker crashes at CMake's -bundle, which this overrides
endif()
