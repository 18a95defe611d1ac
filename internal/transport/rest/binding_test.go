package rest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// oddService is a service of one method, Echo, with the rule. Its message has a scalar id, a list
// tags, a message child, and an optional note.
func oddService(t *testing.T, rule *annotations.HttpRule) protoreflect.ServiceDescriptor {
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
	return file.Services().Get(0)
}

// echo answers with the request's document, as the Connect handler of Echo does.
func echo(t *testing.T, rule *annotations.HttpRule) *Router {
	t.Helper()
	bindings, err := bindingsOf(oddService(t, rule))
	if err != nil {
		t.Fatal(err)
	}
	router := New(Config{})
	for _, b := range bindings {
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || r.URL.Path != "/odd.Odd/Echo" ||
				r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("inner request %s %s %v", r.Method, r.URL, r.Header)
			}
			_, _ = io.Copy(w, r.Body)
		})
		if err := router.add(b.method+" "+b.path, &route{binding: b, handler: handler, log: router.log}); err != nil {
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
		{"POST", "/all/x", `{"tags":["a"]}`, 200, `{"tags":["a"],"theId":"x"}`},
		{"POST", "/all/x", "", 200, `{"theId":"x"}`},
		{"GET", "/none/x?tags=a&tags=b%22", "", 200, `{"theId":"x","tags":["a","b\""]}`},
		{"GET", "/none/x?child=1", "", 400, "child query.unknown"},
		{"PUT", "/child/x?tags=a", `{"tags":[]}`, 200, `{"child":{"tags":[]},"theId":"x","tags":["a"]}`},
		{"PUT", "/child/x", "", 200, `{"theId":"x"}`},
		{"PUT", "/child/x", `{"nope":1}`, 400, "child.nope json.unknown"},
		{"PUT", "/child/x", `{},"tags":[]`, 400, " json.syntax"},
		{"PUT", "/child/x", `null`, 400, "child json.null"},
		{"PUT", "/child/x?child=1", `{}`, 400, "child query.unknown"},
		{"PATCH", "/items", `[{"theId":"a"},{}]`, 200, `[{"theId":"a"},{}]`},
		{"PATCH", "/items", `{}`, 400, "items json.type"},
		{"DELETE", "/gone", "", 200, `{}`},
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
		if _, err := bindingsOf(oddService(t, c.rule)); err == nil || !strings.Contains(err.Error(), c.want) {
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
	for _, path := range []string{"/no.such.Service/", "/roamcard.v1.Order/", "/roamcard.v1.CardService/"} {
		if err := router.Mount(path, http.NotFoundHandler()); err == nil {
			t.Errorf("%s was mounted", path)
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
	bindings, err := bindingsOf(oddService(t,
		&annotations.HttpRule{Pattern: &annotations.HttpRule_Get{Get: "/pay/{the_id}"}}))
	if err != nil {
		t.Fatal(err)
	}
	b := bindings[0]
	b.policy = &roamcardv1.Policy{Paid: true}
	router := New(Config{})
	if err := router.add("GET /pay/{the_id}", &route{binding: b, log: router.log,
		handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// A preview is not validated, but the path's value must be.
			if rpcx.IsPreview(r.Context()) {
				t.Error("a complete request is taken for a preview")
			}
			_, _ = io.Copy(w, r.Body)
		})}); err != nil {
		t.Fatal(err)
	}
	if w := ask(t, router, "GET", "/pay/x", ""); w.Body.String() != `{"theId":"x"}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
