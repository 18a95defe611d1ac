package edge

import (
	"context"
	"slices"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// reflector describes the services of this server, and not those that another one serves.
func reflector(names []string) *grpcreflect.Reflector {
	return grpcreflect.NewReflector(
		namer(names), grpcreflect.WithDescriptorResolver(described{protoregistry.GlobalFiles, names}))
}

type namer []string

// Names implements grpcreflect.Namer.
func (n namer) Names() []string { return n }

// described are the files of the program, without those whose services are served elsewhere alone.
type described struct {
	files *protoregistry.Files
	names []string
}

func (d described) hides(file protoreflect.FileDescriptor) bool {
	services := file.Services()
	for i := range services.Len() {
		if slices.Contains(d.names, string(services.Get(i).FullName())) {
			return false
		}
	}
	return services.Len() > 0 && file.Package() == "roamcard.v1"
}

// FindFileByPath implements protodesc.Resolver.
func (d described) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	file, err := d.files.FindFileByPath(path)
	if err == nil && d.hides(file) {
		return nil, protoregistry.NotFound
	}
	return file, err
}

// FindDescriptorByName implements protodesc.Resolver.
func (d described) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	found, err := d.files.FindDescriptorByName(name)
	if err == nil && d.hides(found.ParentFile()) {
		return nil, protoregistry.NotFound
	}
	return found, err
}

// messages counts what arrives in a stream as requests of its address: the first was counted with the stream.
type messages struct{ limits *limit.Limiter }

// WrapUnary implements connect.Interceptor.
func (messages) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc { return next }

// WrapStreamingClient implements connect.Interceptor.
func (messages) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (m messages) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, &countedConn{StreamingHandlerConn: conn, ctx: ctx, limits: m.limits})
	}
}

type countedConn struct {
	connect.StreamingHandlerConn
	ctx    context.Context
	limits *limit.Limiter
	begun  bool
}

// Receive implements connect.StreamingHandlerConn.
func (c *countedConn) Receive(into any) error {
	if err := c.StreamingHandlerConn.Receive(into); err != nil {
		return err
	}
	if !c.begun {
		c.begun = true
		return nil
	}
	if _, _, err := c.limits.Take(limit.Poll, limit.Address(c.ctx)); err != nil {
		return rpcx.ToConnect(c.ctx, err)
	}
	return nil
}
