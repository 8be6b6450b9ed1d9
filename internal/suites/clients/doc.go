// Package clients checks weblimit's responses with clients that exist: which of them read
// the headers of each dialect, and which wait as long as Retry-After says. docs/use/headers.md
// shows the results, and tests keep that page true.
//
// The tests need node 20.18.1 or later with the packages of testdata/node, python3 with
// urllib3, and curl: scripts/install-clients installs them. What is missing is skipped; where
// CI=true the tests fail.
package clients
