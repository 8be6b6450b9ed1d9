package xds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	weblimit "github.com/weblimit/weblimit/core"
)

const (
	// connectTimeout bounds how long it takes to connect, with the handshake of TLS.
	connectTimeout = 10 * time.Second
	// silence is after how long without a word the control plane is asked whether it lives. A server of gRPC ends
	// connections on which it is asked more often than every five minutes.
	silence = 6 * time.Minute
	// maxHeader bounds the headers of an answer.
	maxHeader = 64 << 10
	// maxDetail bounds the text of a refusal.
	maxDetail = 8 << 10
	// flush is how long the control plane has to read a refusal before its connection is closed.
	flush = time.Second
)

// stream is one subscription, on a connection of its own: so each looks up names and reads certificates anew.
type stream struct {
	config *Config
	conn   *grpc.ClientConn
	client grpc.ClientStream
	end    context.CancelFunc
	unbind func() bool // has the stream outlive the context that it was opened with; false if that has ended

	leaving  atomic.Bool // whether the control plane has asked to connect again
	accepted string      // the version that was accepted last
	late     *time.Timer // closes a stream that nobody acknowledges on, or nil
}

// open connects and subscribes. The stream ends with ctx, unless it is unbound.
func open(ctx context.Context, config *Config) (*stream, error) {
	creds := insecure.NewCredentials()
	if config.TLS != nil {
		settings, err := config.TLS()
		if err != nil {
			return nil, err
		}
		creds = credentials.NewTLS(settings)
	}
	// The scheme is said, or an address could choose one. Pauses between attempts are those of the source.
	conn, err := grpc.NewClient("dns:///"+config.Server,
		grpc.WithTransportCredentials(creds), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithUserAgent("weblimit/"+weblimit.Version()), grpc.WithMaxHeaderListSize(maxHeader),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: time.Hour, MaxDelay: time.Hour, Multiplier: 1}, MinConnectTimeout: connectTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: silence, Timeout: 20 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(config.MaxMessage)))
	if err != nil {
		return nil, err
	}
	long, end := context.WithCancel(metadata.NewOutgoingContext(context.WithoutCancel(ctx), metadata.New(config.Headers)))
	st := &stream{config: config, conn: conn, end: end, unbind: context.AfterFunc(ctx, end)}
	st.client, err = conn.NewStream(long, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, discovery.AggregatedDiscoveryService_StreamAggregatedResources_FullMethodName)
	if err == nil {
		err = st.client.SendMsg(st.request())
		if errors.Is(err, io.EOF) { // the stream has ended, and Recv says why
			_, err = st.receive()
		}
	}
	if err != nil {
		st.close()
		return nil, reasonOf(err, config)
	}
	go st.leave(long)
	return st, nil
}

// request returns what every request of the stream has. The first one names no version, whatever was accepted before:
// a control plane that has started again counts its versions anew, and would take another one for this.
func (st *stream) request() *discovery.DiscoveryRequest {
	node := &core.Node{Id: st.config.NodeID, UserAgentName: "weblimit", UserAgentVersionType: &core.Node_UserAgentVersion{UserAgentVersion: weblimit.Version()}}
	if len(st.config.Metadata) > 0 {
		node.Metadata = &structpb.Struct{Fields: make(map[string]*structpb.Value, len(st.config.Metadata))}
		for name, value := range st.config.Metadata {
			node.Metadata.Fields[name] = structpb.NewStringValue(value)
		}
	}
	return &discovery.DiscoveryRequest{Node: node, TypeUrl: typeURL, VersionInfo: st.accepted}
}

// receive returns the next answer as it was sent.
func (st *stream) receive() (wire []byte, err error) {
	if err := st.client.RecvMsg(&wire); err != nil {
		if st.leaving.Load() {
			return nil, errLeaving
		}
		return nil, reasonOf(err, st.config)
	}
	return wire, nil
}

var errLeaving = errors.New("the control plane has asked to connect again")

// leave ends the stream once the control plane takes no more of them on its connection: one that ends gracefully waits for those
// that are open, and would wait for this one for ever.
func (st *stream) leave(ctx context.Context) {
	for state := st.conn.GetState(); state != connectivity.Ready; state = st.conn.GetState() { // which may be told after streams are open
		if !st.conn.WaitForStateChange(ctx, state) {
			return
		}
	}
	if st.conn.WaitForStateChange(ctx, connectivity.Ready) {
		st.leaving.Store(true)
		st.end()
	}
}

// tell acknowledges an answer, or refuses it with what is wrong.
func (st *stream) tell(a *answer, wrong error) error {
	if wrong == nil {
		st.accepted = a.version
	}
	request := st.request()
	request.ResponseNonce = a.nonce
	if wrong != nil {
		text := wrong.Error()
		text = strings.ToValidUTF8(text[:min(len(text), maxDetail)], "")
		request.ErrorDetail = status.New(codes.InvalidArgument, text).Proto()
	}
	if err := st.client.SendMsg(request); err != nil && !errors.Is(err, io.EOF) { // of which receive says why
		return reasonOf(err, st.config)
	}
	return nil
}

// finish closes the stream once the control plane has read what was sent, or a second later.
func (st *stream) finish() {
	defer st.close()
	late := time.AfterFunc(flush, st.end)
	defer late.Stop()
	_ = st.client.CloseSend()
	for {
		var wire []byte
		if st.client.RecvMsg(&wire) != nil {
			return
		}
	}
}

func (st *stream) close() {
	st.unbind()
	st.end()
	_ = st.conn.Close()
}

// errTooLarge is an answer that was not read.
var errTooLarge = errors.New("the answer is too large")

// reasonOf returns an error of a stream as an operator needs it.
func reasonOf(err error, config *Config) error {
	if errors.Is(err, io.EOF) {
		return errors.New("the control plane has ended the stream")
	}
	s, ok := status.FromError(err)
	switch {
	case !ok:
		return err
	case s.Code() == codes.ResourceExhausted && strings.Contains(s.Message(), "larger than max"):
		return fmt.Errorf("%w: the most is %d bytes", errTooLarge, config.MaxMessage)
	case s.Code() == codes.Unimplemented:
		return fmt.Errorf("%s serves no aggregated discovery: %s", config.Server, s.Message())
	}
	return fmt.Errorf("%s: %s", s.Code(), s.Message())
}
