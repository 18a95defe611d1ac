// Package options reads the custom options of protos, by their JSON names, for plugins that link no code of them.
package options

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Readable decodes the custom options in a set of files with the set's own descriptors, so the
// plugin links no code of google.api, buf.validate or the policy and cannot fall behind them.
func Readable(set *descriptorpb.FileDescriptorSet) (*protoregistry.Files, *dynamicpb.Types, error) {
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, nil, err
	}
	types := dynamicpb.NewTypes(files)
	raw, err := proto.Marshal(set)
	if err != nil {
		return nil, nil, err
	}
	var again descriptorpb.FileDescriptorSet
	if err := (proto.UnmarshalOptions{Resolver: types}).Unmarshal(raw, &again); err != nil {
		return nil, nil, err
	}
	files, err = protodesc.NewFiles(&again)
	return files, types, err
}

// Read decodes a custom option by its JSON names; absent, it leaves `into` alone. A member that
// `into` does not know is an error.
func Read(types *dynamicpb.Types, of protoreflect.Descriptor, extension string, into any) error {
	raw, err := protojson.MarshalOptions{Resolver: types}.Marshal(of.Options())
	if err != nil {
		return fmt.Errorf("show options: %w", err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return fmt.Errorf("read options: %w", err)
	}
	value, ok := all["["+extension+"]"]
	if !ok {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("(%s) has no translation: %w", extension, err)
	}
	return nil
}
