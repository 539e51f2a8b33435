# Lets a library that this machine's compiler makes run with older C and C++ libraries than this machine's, for wheels
# (FEDPLUG_OLD_LIBRARIES).
#
# glibc 2.34 moved the functions of libpthread, libdl and librt into libc. It also has their old versions, but the linker
# takes the new ones. So it is given stand-ins of the old libraries first, which have the old versions alone.
# cmake/old_libraries.cc defines the few names that older libraries lack. auditwheel checks that nothing is left.
option(FEDPLUG_OLD_LIBRARIES "Libraries of wheels run with older C and C++ libraries than this machine's" OFF)

# Writes a stand-in of the library `soname`: the newest old version of each function that libc has in version GLIBC_2.34,
# and whose name matches `names`. Appends its path to `output`.
function(fedplug_stand_in output soname symbols names)
  string(REGEX MATCHALL " (${names})@@GLIBC_2.34" functions "${symbols}")
  set(assembly "")
  set(versions "")
  foreach(function IN LISTS functions)
    string(REGEX REPLACE " (.*)@@.*" "\\1" name "${function}")
    string(REGEX MATCHALL " ${name}@[A-Z]+_[0-9.]+" old "${symbols}")
    if(old)
      list(SORT old COMPARE NATURAL ORDER DESCENDING)
      list(GET old 0 newest)
      string(REGEX REPLACE ".*@" "" version "${newest}")
      string(APPEND assembly ".globl ${name}\n.type ${name}, @function\n${name}:\n"
                             ".symver ${name}, ${name}@@@${version}\n")
      list(APPEND versions "${version}")
    endif()
  endforeach()
  if(assembly)
    set(path "${CMAKE_BINARY_DIR}/stand-ins/${soname}")
    file(WRITE "${path}.s" "${assembly}")
    list(REMOVE_DUPLICATES versions)
    list(JOIN versions " {};\n" version_script)
    file(WRITE "${path}.map" "${version_script} {};\n")
    execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -shared -nostdlib "-Wl,-soname,${soname}"
                            "-Wl,--version-script,${path}.map" -o "${path}" "${path}.s" COMMAND_ERROR_IS_FATAL ANY)
    set(${output} ${${output}} "${path}" PARENT_SCOPE)
  endif()
endfunction()

# Links `target` so, if FEDPLUG_OLD_LIBRARIES is ON.
function(fedplug_link_old_libraries target)
  if(NOT FEDPLUG_OLD_LIBRARIES)
    return()
  endif()
  execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libc.so.6 OUTPUT_VARIABLE libc
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${CMAKE_NM}" --dynamic --with-symbol-versions "${libc}" OUTPUT_VARIABLE symbols
                          COMMAND_ERROR_IS_FATAL ANY)
  set(libraries "")
  fedplug_stand_in(libraries libpthread.so.0 "${symbols}" "(pthread|sem)_[a-z_]+")
  fedplug_stand_in(libraries libdl.so.2 "${symbols}" "dl[a-z_]+")
  fedplug_stand_in(libraries librt.so.1 "${symbols}" "(shm|timer|mq|aio)_[a-z_]+")
  target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/old_libraries.cc")
  # Some linkers drop a library that nothing before it needs.
  target_link_libraries(${target} PRIVATE -Wl,--push-state,--no-as-needed ${libraries} -Wl,--pop-state)
endfunction()
