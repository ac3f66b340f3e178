# isthmus_install(TARGET RUNTIME|LIBRARY FOLDER): installs a program or a library, and makes it a part of the target `installed`,
# which is all that the installation needs to be built.
function(isthmus_install target kind folder)
  install(TARGETS ${target} ${kind} DESTINATION ${folder})
  set_property(GLOBAL APPEND PROPERTY ISTHMUS_INSTALLED ${target})
endfunction()
