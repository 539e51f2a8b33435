# The compile options every fedplug target shares.
#
# -ffp-contract=off: a fused multiply-add rounds once where the contract rounds twice, and then the SIMD levels, the
# GPU and the plain-TensorFlow twins would no longer agree bit for bit.
function(fedplug_configure_target target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wshadow -Werror
                                           -ffp-contract=off>)
  if(FEDPLUG_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${FEDPLUG_SANITIZE}
                                             -fno-sanitize-recover=all -fno-omit-frame-pointer>)
    target_link_options(${target} PRIVATE -fsanitize=${FEDPLUG_SANITIZE})
  endif()
endfunction()
