// Package child starts processes that do not outlive the test process that
// started them, collects what they write, and has folders for their sockets.
package child
