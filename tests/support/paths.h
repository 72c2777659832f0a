// Where the build has put the executables, and where the sources lie. Included by the compiler's command line; not
// macros with paths in them, so that objects are the same in every clone.
#pragma once

#ifdef __cplusplus
namespace bide::test {
extern const char* const kBideExecutable;
extern const char* const kAgentExecutable;
extern const char* const kSourceDirectory;
}  // namespace bide::test
#define BIDE_EXECUTABLE (::bide::test::kBideExecutable)
#define BIDE_AGENT_EXECUTABLE (::bide::test::kAgentExecutable)
#define BIDE_SOURCE_DIR (::bide::test::kSourceDirectory)
#endif
