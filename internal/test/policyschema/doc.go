// Package policyschema compares the JSON Schema of policy files with their loader, by a validator of
// somebody else's. It is a module of its own, so that users of package policy don't download that.
package policyschema
