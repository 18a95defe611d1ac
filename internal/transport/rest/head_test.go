package rest

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// TestHeadIsGetWithoutBody on every GET route of the protos, for answers and for refusals.
func TestHeadIsGetWithoutBody(t *testing.T) {
	gets := map[string]binding{}
	router, status := New(Config{}), http.StatusOK
	protoregistry.GlobalFiles.RangeFilesByPackage(roamcardv1.File_roamcard_v1_policy_proto.Package(),
		func(f protoreflect.FileDescriptor) bool {
			for i := range f.Services().Len() {
				service := f.Services().Get(i)
				bindings, err := bindingsOf(service)
				if err != nil {
					t.Fatal(err)
				}
				of := map[string]binding{}
				for _, b := range bindings {
					of[b.procedure] = b
					if b.method == http.MethodGet {
						gets[b.path] = b
					}
				}
				err = router.Mount("/"+string(service.FullName())+"/", http.HandlerFunc(
					func(w http.ResponseWriter, r *http.Request) {
						w.Header().Set("Content-Type", "application/json")
						w.Header().Set("Payment-Response", "receipt")
						if status != http.StatusOK {
							w.WriteHeader(status)
							_, _ = io.WriteString(w, `{"code":"unauthenticated"}`)
							return
						}
						answer := "{}"
						if field := of[r.URL.Path].answerField; field != nil {
							answer = `{"` + field.JSONName() + `":{"a":1}}`
						}
						_, _ = io.WriteString(w, answer)
					}))
				if err != nil {
					t.Fatal(err)
				}
			}
			return true
		})
	if len(gets) < 30 {
		t.Fatalf("%d routes are read by GET", len(gets))
	}
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	ask := func(method, path string) (*http.Response, []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := server.Client().Do(r)
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
