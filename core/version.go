package core

// version is that of the last release. scripts/release changes it, and nothing else does.
const version = "v0.0.0"

// Version returns the version of weblimit, such as "v1.2.3", for logs and programs. Between two
// releases it is that of the one before; before the first it is "v0.0.0".
func Version() string { return version }
