package rest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// TestHeadIsGetWithoutBody on every GET route of the protos, for answers and for refusals.
func TestHeadIsGetWithoutBody(t *testing.T) {
	gets := map[string]bool{}
	router, status := New(Config{}), http.StatusOK
	server := connect.NewServer(rpcx.Errors())
	protoregistry.GlobalFiles.RangeFilesByPackage(roamcardv1.File_roamcard_v1_policy_proto.Package(),
		func(f protoreflect.FileDescriptor) bool {
			for i := range f.Services().Len() {
				methods := f.Services().Get(i).Methods()
				for j := range methods.Len() {
					method := methods.Get(j)
					bindings, err := bindingsOf(method)
					if err != nil {
						t.Fatal(err)
					}
					for _, b := range bindings {
						if b.method == http.MethodGet {
							gets[b.path] = true
						}
					}
					server.Register(connect.Method{
						Spec: connect.Spec{
							Procedure: fmt.Sprintf("/%s/%s", f.Services().Get(i).FullName(), method.Name()), Schema: method,
						},
						Handler: func(ctx context.Context, _ connect.Spec, stream connect.ServerStream) error {
							call, _ := connect.CallInfoForServerContext(ctx)
							call.ResponseHeader().Set("Payment-Response", "receipt")
							if status != http.StatusOK {
								return fault.New(fault.SessionInvalid, "")
							}
							return stream.Send(filled(method.Output()))
						},
					})
				}
			}
			return true
		})
	if err := router.Mount(server); err != nil {
		t.Fatal(err)
	}
	if len(gets) < 30 {
		t.Fatalf("%d routes are read by GET", len(gets))
	}
	site := httptest.NewServer(router)
	t.Cleanup(site.Close)
	ask := func(method, path string) (*http.Response, []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, site.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := site.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		res.Header.Del("Date")
		return res, body
	}
	variable := regexp.MustCompile(`\{[a-z0-9_]+\}`)
	for _, status = range []int{http.StatusOK, http.StatusUnauthorized} {
		for _, template := range slices.Sorted(maps.Keys(gets)) {
			path := variable.ReplaceAllString(template, "0b0d6e0e-3c54-4a9d-8f4e-6f1d2f6c9a41")
			get, whole := ask(http.MethodGet, path)
			head, body := ask(http.MethodHead, path)
			if get.StatusCode != status || len(whole) == 0 || get.Header.Get("Content-Length") != strconv.Itoa(len(whole)) {
				t.Errorf("GET %s: %d %v %s", template, get.StatusCode, get.Header, whole)
			}
			if head.StatusCode != get.StatusCode || len(body) != 0 ||
				!maps.EqualFunc(head.Header, get.Header, slices.Equal[[]string]) {
				t.Errorf("HEAD %s: %d %v, %d bytes; GET: %d %v", template, head.StatusCode, head.Header, len(body),
					get.StatusCode, get.Header)
			}
		}
	}
}

// filled is a message whose own members that are messages are there.
func filled(of protoreflect.MessageDescriptor) proto.Message {
	m := dynamicpb.NewMessage(of)
	for i := range of.Fields().Len() {
		if field := of.Fields().Get(i); field.Message() != nil && !field.IsList() && !field.IsMap() {
			m.Mutable(field)
		}
	}
	return m
}
