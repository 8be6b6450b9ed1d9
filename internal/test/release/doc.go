// Package release tests scripts/release in temporary repositories, and that the version is the
// same in every place that holds it. It is never imported.
package release
