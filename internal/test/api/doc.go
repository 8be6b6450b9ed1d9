// Package api compares what the importable packages export with the lists in the
// folder api, so that a change of the face shows in review. [Face] writes the lines of
// a list, [Load] reads the packages, and the test compares. `make api` writes the lists.
package api
