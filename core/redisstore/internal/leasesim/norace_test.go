//go:build !race

package leasesim_test

const race = false
