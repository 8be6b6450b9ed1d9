// Package migrate runs other limiters beside weblimit: the pairs of docs/choose/migrate.md get the
// same requests and must let the same ones through, with the headers that the page promises.
package migrate
