// Package policyschema compares the JSON Schema of policy files with their loader, by a validator of
// somebody else's.
package policyschema
