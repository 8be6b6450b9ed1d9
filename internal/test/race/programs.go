package race

import "os"

// ProgramsVariable is set to 1 where tests that share nothing between goroutines have no race detector, but the programs
// that they build and drive are to have it.
const ProgramsVariable = "RACE_IN_PROGRAMS"

// InPrograms reports whether programs that tests build are to have the race detector: where the tests have it, and
// where [ProgramsVariable] says so.
func InPrograms() bool { return Enabled || os.Getenv(ProgramsVariable) == "1" }
