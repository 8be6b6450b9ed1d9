// Package compose makes of limiters what those need who decide for others, such as policies, the service and a book:
// questions to several limiters that are decided together, charges that are settled later by any process, limiters
// whose configuration changes or that somebody else decides for, and catalogs. Adapters and applications do not need it.
package compose
