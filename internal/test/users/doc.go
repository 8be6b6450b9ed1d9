// Package users has programs of users, whose go.mod and go.sum must not move when weblimit supports
// another framework.
package users
