//go:build race

package redisstore

const raced = true // tests of millions do fewer
