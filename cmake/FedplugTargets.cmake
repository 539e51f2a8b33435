# The compile options every fedplug target shares.
#
# -ffp-contract=off: a fused multiply-add rounds once where the contract rounds twice, and then the SIMD levels, the
# GPU and the plain-TensorFlow references would no longer agree bit for bit.
function(fedplug_configure_target target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wshadow -Werror
                                           -ffp-contract=off>)
  if(FEDPLUG_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${FEDPLUG_SANITIZE}
                                             -fno-sanitize-recover=all -fno-omit-frame-pointer>)
    target_link_options(${target} PRIVATE -fsanitize=${FEDPLUG_SANITIZE})
  endif()
endfunction()

# Sets `output` to what fedplug/registry/build_info.py calls the fingerprint of the sources that follow.
function(fedplug_fingerprint output)
  set(digests "")
  foreach(source IN LISTS ARGN)
    file(SHA256 "${source}" digest)
    string(APPEND digests "${digest}")
  endforeach()
  string(SHA256 digest "${digests}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
  set(${output} "${digest}" PARENT_SCOPE)
endfunction()
