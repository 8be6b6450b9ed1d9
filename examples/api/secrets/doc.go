// Package secrets runs the application of examples/api with secrets planted in all that a client
// sends and the operator configures, and looks for them in all that is emitted: metrics, spans and
// log lines.
package secrets
