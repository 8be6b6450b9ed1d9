// Package fairsim simulates a limit that clients divide: the product's own code on a store in memory, with requests and time
// that are simulated. It measures how close what clients are granted comes to shares that are max-min fair.
//
// A [Config] determines its outcome.
package fairsim
