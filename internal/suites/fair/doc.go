// Package fair has processes divide a limit on a real Redis: one busy client beside many light ones, through Gin, gRPC and the
// service.
package fair
