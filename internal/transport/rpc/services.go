package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"connectrpc.com/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
)

// maxMessage bounds a message on the RPC face. The REST face has a tighter bound for each method.
const maxMessage = 64 << 10

// OperatorPath is where the procedures of operators are; no page of another origin has business there.
const OperatorPath = "/" + roamcardv1connect.OperatorServiceName + "/"

// Handler is one service as the edge mounts it: under its path for Connect, gRPC and gRPC-Web, and
// under its routes for REST.
type Handler struct {
	Path    string
	Handler http.Handler
}

// Handlers makes the services with everything that stands before their methods: errors, strict
// JSON, policy, validation. Every method's rules are compiled here, so that a wrong one fails at
// the start and not on a request.
func Handlers(c Config) ([]Handler, error) {
	messages, err := requests()
	if err != nil {
		return nil, err
	}
	rules, err := protovalidate.New(protovalidate.WithMessages(messages...), protovalidate.WithDisableLazy())
	if err != nil {
		return nil, fmt.Errorf("compile the validation rules: %w", err)
	}
	validation := validate.NewInterceptor(validate.WithValidator(rules))
	// The first is the outermost.
	opts := []connect.HandlerOption{
		connect.WithInterceptors(Errors()),
		JSON(),
		connect.WithInterceptors(Policies(c.Auth, c.Esims, c.Limits), UnlessPreview(validation)),
		connect.WithInterceptors(Streams(c, validation)),
		connect.WithReadMaxBytes(maxMessage),
		connect.WithCompressMinBytes(1024),
		connect.WithRecover(recovered),
	}
	var all []Handler
	for _, add := range []func() (string, http.Handler){
		func() (string, http.Handler) { return roamcardv1connect.NewCardServiceHandler(CardService{c}, opts...) },
		func() (string, http.Handler) {
			return roamcardv1connect.NewOrderServiceHandler(OrderService{c}, opts...)
		},
		func() (string, http.Handler) { return roamcardv1connect.NewEsimServiceHandler(EsimService{c}, opts...) },
		func() (string, http.Handler) { return roamcardv1connect.NewAuthServiceHandler(AuthService{c}, opts...) },
		func() (string, http.Handler) {
			return roamcardv1connect.NewRuntimeServiceHandler(RuntimeService{c}, opts...)
		},
		func() (string, http.Handler) {
			return roamcardv1connect.NewOperatorServiceHandler(OperatorService{c}, opts...)
		},
		func() (string, http.Handler) {
			return roamcardv1connect.NewActivityServiceHandler(ActivityService{c}, opts...)
		},
	} {
		path, handler := add()
		all = append(all, Handler{path, handler})
	}
	return all, nil
}

// recovered makes a panic an internal error; its value is logged, never shown.
func recovered(_ context.Context, _ connect.Spec, _ http.Header, value any) error {
	return fmt.Errorf("panic: %v", value)
}

// requests is an empty message of every method's request, and checks that every method has a policy.
func requests() ([]proto.Message, error) {
	var all []proto.Message
	var errs []error
	protoregistry.GlobalFiles.RangeFilesByPackage(roamcardv1.File_roamcard_v1_card_proto.Package(), func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			methods := f.Services().Get(i).Methods()
			for j := range methods.Len() {
				m := methods.Get(j)
				if _, err := PolicyOf(m); err != nil {
					errs = append(errs, err)
				}
				kind, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
				if err != nil {
					errs = append(errs, fmt.Errorf("request of %s: %w", m.FullName(), err))
					continue
				}
				all = append(all, kind.New().Interface())
			}
		}
		return true
	})
	return all, errors.Join(errs...)
}
