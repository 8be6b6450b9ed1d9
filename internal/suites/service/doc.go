// Package service tests the service with what it does not require itself: policy files, Redis, adapters
// that decide by it, and a validator of OpenAPI of somebody else's.
package service
