package edge

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	connectv1 "connectrpc.com/connect"
	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect/v2"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// addHealth serves the health of the services, which has no form in connect's second version.
func (s *Server) addHealth() error {
	s.health = grpchealth.NewStaticChecker(s.services...)
	path, handler := grpchealth.NewHandler(s.health, connectv1.WithReadMaxBytes(maxProbe),
		// Nobody packs the name of a service.
		connectv1.WithCompression("gzip", nil, nil))
	s.procedures = append(s.procedures, path)
	return s.router.Handle(path, handler)
}

// addReflection describes the services of this server and its health, and not what another one serves.
func (s *Server) addReflection() error {
	health, err := healthFile()
	if err != nil {
		return err
	}
	names := s.services
	d := described{protoregistry.GlobalFiles, &protoregistry.Files{}, names}
	if err := d.health.RegisterFile(health); err != nil {
		return fmt.Errorf("describe health: %w", err)
	}
	server := connect.NewServer(rpcx.Errors(), rpcx.Messages(s.cfg.Limits))
	grpcreflect.Register(server, grpcreflect.WithNamer(grpcreflect.NamerFunc(func() []string { return names })),
		grpcreflect.WithDescriptorResolver(d))
	handlers := mounted{}
	connecthttp.Mount(handlers, server, rpcx.OverHTTP(maxProbe)...)
	for path, handler := range handlers {
		if err := s.router.Handle(path, s.overHTTP2Only(handler)); err != nil {
			return err
		}
	}
	s.procedures = append(s.procedures,
		"/"+grpcreflect.ReflectV1ServiceName+"/", "/"+grpcreflect.ReflectV1AlphaServiceName+"/")
	return nil
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
