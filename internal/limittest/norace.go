//go:build !race

package limittest

const race = false
