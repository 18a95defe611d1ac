// Package rpcx is what every RPC has around its method: call info, policy, strict JSON, validation, faults as errors.
//
//	call -> errors -> message, by strict JSON -> policy -> validation -> method of a service in package rpc
//
// The layers that turn other protocols into calls use it too, and need nothing of the services.
package rpcx

import (
	"errors"
	"fmt"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/limit"
)

// MaxMessage is how many bytes a message of any method may have, see MaxBody.
const MaxMessage = 32 << 10

// Config is what enforcing the policies needs.
type Config struct {
	Callers    Callers
	Deliveries Deliveries
	Watches    Watches
	// Refusals records what operators' roles did not allow; nil records nothing.
	Refusals Refusals
	// Limits counts what wallets ask for; nil does not limit.
	Limits *limit.Limiter
}

// Server has the methods of services.
type Server = connect.Server

// Servers makes servers without services, with what every method has around it. The validation rules of every method
// are compiled here, so that a wrong one fails at start-up and not on a request.
func Servers(c Config) (create func() *Server, err error) {
	messages, err := requests()
	if err != nil {
		return nil, err
	}
	rules, err := protovalidate.New(protovalidate.WithMessages(messages...), protovalidate.WithDisableLazy())
	if err != nil {
		return nil, fmt.Errorf("compile the validation rules: %w", err)
	}
	// The first is the outermost.
	return func() *Server { return connect.NewServer(Errors(), Messages(c.Limits), Policies(c, rules)) }, nil
}

// requests makes an empty request of every method, and checks that every method has a policy.
func requests() ([]proto.Message, error) {
	var all []proto.Message
	var errs []error
	protoregistry.GlobalFiles.RangeFilesByPackage(roamcardv1.File_roamcard_v1_policy_proto.Package(),
		func(f protoreflect.FileDescriptor) bool {
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
