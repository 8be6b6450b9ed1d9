// Package support is the service of the programs beside it, and its clients.
package support

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative --grpc-gateway_out=. --grpc-gateway_opt=paths=source_relative,generate_unbound_methods=true support.proto
