package xds

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec sends messages, and receives bytes: what a control plane has sent is counted before it is unpacked.
type codec struct{}

// Name is that of gRPC's own codec: on the wire they are the same.
func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("weblimit: envoy: xds: a %T is sent", v)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	to, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("weblimit: envoy: xds: a %T is received", v)
	}
	*to = data.Materialize() // gRPC frees data
	return nil
}
