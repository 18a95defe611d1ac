package edge

import (
	"slices"

	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
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
