package edge

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/roamcard/roamcard/internal/fault"
)

// reflector describes the services of this server and its health, and not what another one serves.
func reflector(names []string) (*grpcreflect.Reflector, error) {
	health, err := healthFile()
	if err != nil {
		return nil, err
	}
	d := described{protoregistry.GlobalFiles, &protoregistry.Files{}, names}
	if err := d.health.RegisterFile(health); err != nil {
		return nil, fmt.Errorf("describe health: %w", err)
	}
	return grpcreflect.NewReflector(
		grpcreflect.NamerFunc(func() []string { return names }), grpcreflect.WithDescriptorResolver(d)), nil
}

// described are the files of the program, without those whose services are served elsewhere alone.
type described struct {
	files, health *protoregistry.Files
	names         []string
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
	if err != nil || d.hides(file) {
		return d.health.FindFileByPath(path)
	}
	return file, nil
}

// FindDescriptorByName implements protodesc.Resolver.
func (d described) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	found, err := d.files.FindDescriptorByName(name)
	if err != nil || d.hides(found.ParentFile()) {
		return d.health.FindDescriptorByName(name)
	}
	return found, nil
}

// healthFile describes the health service. connect registers it under another package, so that a program may have
// gRPC's own next to it.
func healthFile() (protoreflect.FileDescriptor, error) {
	const prefix = "connectext"
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(prefix + "." + grpchealth.HealthV1ServiceName)
	if err != nil {
		return nil, fmt.Errorf("find the health service: %w", err)
	}
	text, err := prototext.Marshal(protodesc.ToFileDescriptorProto(found.ParentFile()))
	if err != nil {
		return nil, fmt.Errorf("write the health service: %w", err)
	}
	var file descriptorpb.FileDescriptorProto
	renamed := strings.NewReplacer(prefix+".", "", prefix+"/", "").Replace(string(text))
	if err := prototext.Unmarshal([]byte(renamed), &file); err != nil {
		return nil, fmt.Errorf("read the health service: %w", err)
	}
	return protodesc.NewFile(&file, nil)
}

// overHTTP2Only refuses by HTTP/1.1 what streams in both directions. connect would answer with a 505, as if the service
// had failed.
func (s *Server) overHTTP2Only(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			// Who expects answers before the end of its request would wait.
			w.Header().Set("Connection", "close")
			s.refuse(w, r, fault.New(fault.RouteNotFound, "This needs HTTP/2."))
			return
		}
		next.ServeHTTP(w, r)
	})
}
