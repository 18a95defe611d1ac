package rest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect/v2"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// oddMethod is a method Echo with the rule. Its message has a scalar id, a list
// tags, a message child, and an optional note.
func oddMethod(t *testing.T, rule *annotations.HttpRule) protoreflect.MethodDescriptor {
	t.Helper()
	options := &descriptorpb.MethodOptions{}
	proto.SetExtension(options, annotations.E_Http, rule)
	proto.SetExtension(options, roamcardv1.E_Policy, &roamcardv1.Policy{Access: roamcardv1.Access_ACCESS_PUBLIC})
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type,
		label descriptorpb.FieldDescriptorProto_Label) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: &kind, Label: &label}
		if kind == descriptorpb.FieldDescriptorProto_TYPE_MESSAGE {
			f.TypeName = proto.String(".odd.Message")
		}
		return f
	}
	const (
		text    = descriptorpb.FieldDescriptorProto_TYPE_STRING
		message = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
		one     = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
		many    = descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	)
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("odd.proto"), Package: proto.String("odd"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{
			Name: proto.String("Message"),
			Field: []*descriptorpb.FieldDescriptorProto{
				field("the_id", 1, text, one), field("tags", 2, text, many), field("child", 3, message, one),
				field("items", 4, message, many),
			},
		}},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: proto.String("Odd"),
			Method: []*descriptorpb.MethodDescriptorProto{{
				Name: proto.String("Echo"), InputType: proto.String(".odd.Message"),
				OutputType: proto.String(".odd.Message"), Options: options,
			}},
		}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	return file.Services().Get(0).Methods().Get(0)
}

// echo routes a rule to a method that answers with its request.
func echo(t *testing.T, rule *annotations.HttpRule) *Router {
	t.Helper()
	return routed(t, rule, nil, func(context.Context) {})
}

// routed is echo with another policy, unless it is nil, and with what is called for each call.
func routed(t *testing.T, rule *annotations.HttpRule, p *roamcardv1.Policy, called func(context.Context)) *Router {
	t.Helper()
	method := oddMethod(t, rule)
	server, router := connect.NewServer(rpcx.Errors()), New(Config{})
	server.Register(connect.Method{
		Spec: connect.Spec{Procedure: "/odd.Odd/Echo", Schema: method},
		Handler: func(ctx context.Context, _ connect.Spec, stream connect.ServerStream) error {
			called(ctx)
			message := dynamicpb.NewMessage(method.Input())
			if err := stream.Receive(message); err != nil {
				return err
			}
			return stream.Send(message)
		},
	})
	bindings, err := bindingsOf(method)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bindings {
		if p != nil {
			b.policy = p
		}
		if err := router.add(b.method+" "+b.path, &route{binding: b, server: server, log: router.log}); err != nil {
			t.Fatal(err)
		}
	}
	return router
}

func TestBindingsServeEveryFormOfRule(t *testing.T) {
	all := &annotations.HttpRule{
		Pattern: &annotations.HttpRule_Post{Post: "/all/{the_id}"}, Body: "*",
		AdditionalBindings: []*annotations.HttpRule{
			{Pattern: &annotations.HttpRule_Get{Get: "/none/{the_id}"}},
			{Pattern: &annotations.HttpRule_Put{Put: "/child/{the_id}"}, Body: "child"},
			{Pattern: &annotations.HttpRule_Patch{Patch: "/items"}, Body: "items", ResponseBody: "items"},
			{Pattern: &annotations.HttpRule_Delete{Delete: "/gone"}},
		},
	}
	router := echo(t, all)
	for _, c := range []struct {
		method, target, body string
		status               int
		want                 string
	}{
		{"POST", "/all/x", `{"tags":["a"]}`, 200, `{"theId":"x","tags":["a"],"items":[]}`},
		{"POST", "/all/x", "", 200, `{"theId":"x","tags":[],"items":[]}`},
		{"GET", "/none/x?tags=a&tags=b%22", "", 200, `{"theId":"x","tags":["a","b\""],"items":[]}`},
		{"GET", "/none/x?child=1", "", 400, "child query.unknown"},
		{"PUT", "/child/x?tags=a", `{"tags":[]}`, 200,
			`{"theId":"x","tags":["a"],"child":{"theId":"","tags":[],"items":[]},"items":[]}`},
		{"PUT", "/child/x", "", 200, `{"theId":"x","tags":[],"items":[]}`},
		{"PUT", "/child/x", `{"nope":1}`, 400, "child.nope json.unknown"},
		{"PUT", "/child/x", `{},"tags":[]`, 400, " json.syntax"},
		{"PUT", "/child/x", `null`, 400, "child json.null"},
		{"PUT", "/child/x?child=1", `{}`, 400, "child query.unknown"},
		{"PATCH", "/items", `[{"theId":"a"},{}]`, 200,
			`[{"theId":"a","tags":[],"items":[]},{"theId":"","tags":[],"items":[]}]`},
		{"PATCH", "/items", `{}`, 400, "items json.type"},
		{"DELETE", "/gone", "", 200, `{"theId":"","tags":[],"items":[]}`},
	} {
		w := ask(t, router, c.method, c.target, c.body)
		got := w.Body.String()
		if w.Code == 400 {
			f := readProblem(t, w.Body.Bytes()).Fields[0]
			got = f.Path + " " + f.Rule
		}
		if w.Code != c.status || got != c.want {
			t.Errorf("%s %s %s: %d %s, want %s", c.method, c.target, c.body, w.Code, got, c.want)
		}
	}
}

func TestBindingsRefuseRulesThatCannotBeServed(t *testing.T) {
	for _, c := range []struct {
		rule *annotations.HttpRule
		want string
	}{
		{&annotations.HttpRule{Pattern: &annotations.HttpRule_Get{Get: "/a/{the_id=**}"}}, "segment"},
		{&annotations.HttpRule{Pattern: &annotations.HttpRule_Get{Get: "/a/{the_id}:verb"}}, "segment"},
		{&annotations.HttpRule{Pattern: &annotations.HttpRule_Get{Get: "/a/*"}}, "segment"},
		{&annotations.HttpRule{Pattern: &annotations.HttpRule_Get{Get: "/a/"}}, "segment"},
		{&annotations.HttpRule{Pattern: &annotations.HttpRule_Get{Get: "a"}}, "slash"},
		{&annotations.HttpRule{Pattern: &annotations.HttpRule_Get{Get: "/a/{child.the_id}"}}, "segment"},
		{&annotations.HttpRule{Pattern: &annotations.HttpRule_Get{Get: "/a/{child}"}}, "no scalar field child"},
		{&annotations.HttpRule{Pattern: &annotations.HttpRule_Get{Get: "/a/{tags}"}}, "no scalar field tags"},
		{&annotations.HttpRule{Pattern: &annotations.HttpRule_Get{Get: "/a/{nope}"}}, "no scalar field nope"},
		{&annotations.HttpRule{Pattern: &annotations.HttpRule_Post{Post: "/a"}, Body: "nope"}, "no field nope"},
		{&annotations.HttpRule{Pattern: &annotations.HttpRule_Post{Post: "/a"}, ResponseBody: "nope"}, "no field nope"},
		{&annotations.HttpRule{Pattern: &annotations.HttpRule_Custom{
			Custom: &annotations.CustomHttpPattern{Kind: "HEAD", Path: "/a"},
		}}, "not served"},
	} {
		if _, err := bindingsOf(oddMethod(t, c.rule)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %s", c.rule, err, c.want)
		}
	}
}

func TestMountRefusesOverlappingRoutes(t *testing.T) {
	router := newRouter(t, &fakeServices{})
	for _, pattern := range []string{"GET /api/cards", "GET /api/{x}/y/balance/{z...}x",
		"POST /api/{what}/purchase/{$"} {
		if err := router.Handle(pattern, http.NotFoundHandler()); err == nil {
			t.Errorf("%s was added", pattern)
		}
	}
	again, bare := connect.NewServer(), connect.NewServer()
	roamcardv1connect.RegisterCardServiceHandler(again, &fakeServices{})
	bare.Register(connect.Method{Spec: connect.Spec{Procedure: "/no.such.Service/Method"}})
	for name, server := range map[string]*connect.Server{"routes that are there": again, "no descriptor": bare} {
		if err := router.Mount(server); err == nil {
			t.Errorf("%s was mounted", name)
		}
	}
}

func TestSubtreesDoNotRedirect(t *testing.T) {
	router := New(Config{})
	if err := router.Handle("/pkg.Service/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.URL.Path)
	})); err != nil {
		t.Fatal(err)
	}
	if w := ask(t, router, "POST", "/pkg.Service/Method", ""); w.Code != 200 ||
		w.Body.String() != "/pkg.Service/Method" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(t, router, "POST", "/pkg.Service", ""); w.Code != 404 || w.Header().Get("Location") != "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

func TestPreviewNeedsRouteWithBody(t *testing.T) {
	rule := &annotations.HttpRule{Pattern: &annotations.HttpRule_Get{Get: "/pay/{the_id}"}}
	router := routed(t, rule, &roamcardv1.Policy{Paid: true}, func(ctx context.Context) {
		// A preview is not validated, but the path's value must be.
		if rpcx.IsPreview(ctx) {
			t.Error("a complete request is taken for a preview")
		}
	})
	if w := ask(t, router, "GET", "/pay/x", ""); w.Body.String() != `{"theId":"x","tags":[],"items":[]}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
