package envoy

import (
	"context"
	"errors"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/runtime/protoiface"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A value of a descriptor can be a header of Envoy's client, with any bytes, and Envoy sends it as it
// is. The protobuf library refuses a string that is no UTF-8, which makes the call an error, and lets
// the request pass where Envoy has failure_mode_deny: false. So requests are read here, with values as
// they are. No more descriptors and entries are made than show that there are too many: each takes two
// bytes of a message, and a hundred and more of memory.

// service is the service's description with a method that reads requests so.
var service = func() grpc.ServiceDesc {
	desc := rls.RateLimitService_ServiceDesc
	name := desc.Methods[0].MethodName
	desc.Methods = []grpc.MethodDesc{{
		MethodName: name,
		Handler: func(server any, ctx context.Context, read func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			config := &server.(*Server).config
			in := &lenient{new(rls.RateLimitRequest), most{config.MaxDescriptors, config.MaxEntries}}
			if err := read(in); err != nil {
				return nil, err
			}
			handle := func(ctx context.Context, request any) (any, error) {
				return server.(rls.RateLimitServiceServer).ShouldRateLimit(ctx, request.(*rls.RateLimitRequest))
			}
			if interceptor == nil {
				return handle(ctx, in.RateLimitRequest)
			}
			info := &grpc.UnaryServerInfo{Server: server, FullMethod: "/" + desc.ServiceName + "/" + name}
			return interceptor(ctx, in.RateLimitRequest, info, handle)
		},
	}}
	return desc
}()

// most bounds a request.
type most struct{ descriptors, entries int }

// lenient is a request that is read with strings as they are.
type lenient struct {
	*rls.RateLimitRequest
	most most
}

// ProtoReflect implements proto.Message.
func (l *lenient) ProtoReflect() protoreflect.Message {
	return lenientMessage{l.RateLimitRequest.ProtoReflect(), l.RateLimitRequest, l.most}
}

type lenientMessage struct {
	protoreflect.Message
	request *rls.RateLimitRequest
	most    most
}

// ProtoMethods gives the protobuf library the function that reads. The message has no required fields, and the library would look
// for them by reflection.
func (m lenientMessage) ProtoMethods() *protoiface.Methods {
	return &protoiface.Methods{Unmarshal: func(in protoiface.UnmarshalInput) (protoiface.UnmarshalOutput, error) {
		return protoiface.UnmarshalOutput{Flags: protoiface.UnmarshalInitialized}, readRequest(in.Buf, m.request, m.most)
	}}
}

var errFieldNumber = errors.New("weblimit: envoy: the message has an invalid field number")

// fields calls use for each field of a message on the wire, with the bytes of those that have some.
func fields(wire []byte, use func(number protowire.Number, text []byte, number64 uint64) error) error {
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if number > protowire.MaxValidNumber {
			return errFieldNumber
		}
		wire = wire[n:]
		var text []byte
		var value uint64
		switch kind {
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(wire)
			if text == nil {
				text = []byte{}
			}
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(wire)
		default:
			n = protowire.ConsumeFieldValue(number, kind, wire)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := use(number, text, value); err != nil {
			return err
		}
		wire = wire[n:]
	}
	return nil
}

// readRequest reads envoy.service.ratelimit.v3.RateLimitRequest.
func readRequest(wire []byte, to *rls.RateLimitRequest, most most) error {
	return fields(wire, func(number protowire.Number, text []byte, value uint64) error {
		switch {
		case number == 1 && text != nil:
			to.Domain = string(text)
		case number == 2 && text != nil && len(to.Descriptors) <= most.descriptors:
			d := new(ratelimit.RateLimitDescriptor)
			to.Descriptors = append(to.Descriptors, d)
			return readDescriptor(text, d, most.entries)
		case number == 3 && text == nil:
			to.HitsAddend = uint32(value)
		}
		return nil
	})
}

// readDescriptor reads envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.
func readDescriptor(wire []byte, to *ratelimit.RateLimitDescriptor, mostEntries int) error {
	return fields(wire, func(number protowire.Number, text []byte, value uint64) error {
		switch {
		case number == 1 && text != nil && len(to.Entries) <= mostEntries:
			entry := new(ratelimit.RateLimitDescriptor_Entry)
			to.Entries = append(to.Entries, entry)
			return fields(text, func(number protowire.Number, text []byte, _ uint64) error {
				switch {
				case number == 1 && text != nil:
					entry.Key = string(text)
				case number == 2 && text != nil:
					entry.Value = string(text)
				}
				return nil
			})
		case number == 2 && text != nil: // no strings in it
			if to.Limit == nil {
				to.Limit = new(ratelimit.RateLimitDescriptor_RateLimitOverride)
			}
			return proto.UnmarshalOptions{Merge: true, DiscardUnknown: true}.Unmarshal(text, to.Limit)
		case number == 3 && text != nil:
			if to.HitsAddend == nil {
				to.HitsAddend = new(wrapperspb.UInt64Value)
			}
			return proto.UnmarshalOptions{Merge: true, DiscardUnknown: true}.Unmarshal(text, to.HitsAddend)
		case number == 4 && text == nil:
			to.IsNegativeHits = value != 0
		}
		return nil
	})
}
