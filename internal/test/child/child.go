// Package child starts processes that do not outlive the test process that
// started them.
package child
