// Package models runs the libraries of OpenAI and Anthropic, for Go and for Node, against examples/llm: they stream, read
// the headers, wait and ask again, and take the errors in streams for errors.
//
// It is a module of its own, since these libraries ask for packages that no other suite has. Those for Node are in
// internal/suites/clients/testdata/node: scripts/install-clients installs them. What is missing is skipped; where CI=true
// the tests fail.
package models
