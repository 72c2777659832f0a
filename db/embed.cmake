# Puts files into the program as constant data: the migrations, and the page's files.
# Each becomes one array in a generated .cpp, so that a change of a file rebuilds one object.

function(bide_embed_files target symbol header)
  set(out ${CMAKE_BINARY_DIR}/generated/${symbol}.cpp)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DSYMBOL=${symbol} -DHEADER=${header} "-DFILES=${ARGN}"
            -P ${CMAKE_SOURCE_DIR}/db/embed_files.cmake
    DEPENDS ${ARGN} ${CMAKE_SOURCE_DIR}/db/embed_files.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()

function(bide_embed_migrations target)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/migrations/*.sql)
  bide_embed_files(${target} embedded_migrations db/embedded.h ${files})
endfunction()

function(bide_embed_page target)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/web/page/*.html ${CMAKE_SOURCE_DIR}/web/page/*.css
       ${CMAKE_SOURCE_DIR}/web/page/*.js ${CMAKE_SOURCE_DIR}/web/page/*.svg)
  bide_embed_files(${target} embedded_page db/embedded.h ${files})
  bide_embed_files(${target} embedded_documents web/embedded_documents.h ${CMAKE_SOURCE_DIR}/web/openapi.json)
endfunction()
