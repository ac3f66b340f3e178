# Links the name of each benchmark to the one program, beside it. PROGRAM: where it lies; LISTING: the program to ask for the names, where that
# is another.
if(NOT LISTING)
  set(LISTING ${PROGRAM})
endif()
execute_process(COMMAND ${LISTING} --names OUTPUT_VARIABLE names COMMAND_ERROR_IS_FATAL ANY)
string(STRIP "${names}" names)
string(REPLACE "\n" ";" names "${names}")
cmake_path(GET PROGRAM PARENT_PATH folder)
cmake_path(GET PROGRAM FILENAME file)
foreach(name IN LISTS names)
  file(CREATE_LINK ${file} ${folder}/${name} SYMBOLIC)
endforeach()
