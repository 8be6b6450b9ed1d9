package xds

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// maxValues bounds the fields of all resources of an answer. A field takes two bytes of an answer, and a hundred and
	// more of memory. 50,000 rules have 350,000, and a file of them may have as many values.
	maxValues = 1_000_000
	// maxLevels bounds how deep messages are in each other. The reader of files allows 100 maps and lists; a map of metadata is
	// three messages.
	maxLevels = 320
)

// scanner looks at messages before they are unpacked: unpacking takes memory for each field, and keeps those that it
// does not know out of sight.
type scanner struct{ left int } // how many fields there may still be

// scan returns an error if a message has too many fields or levels, or a field that its description does not have.
func (s *scanner) scan(of protoreflect.MessageDescriptor, wire []byte, level int) error {
	if level > maxLevels {
		return fmt.Errorf("messages are nested more than %d deep", maxLevels)
	}
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return protowire.ParseError(n)
		}
		wire = wire[n:]
		n = protowire.ConsumeFieldValue(number, kind, wire)
		if n < 0 {
			return protowire.ParseError(n)
		}
		value := wire[:n]
		wire = wire[n:]
		if s.left--; s.left < 0 {
			return fmt.Errorf("the resources have more than %d fields, which is more than 50,000 rules need", maxValues)
		}
		field := of.Fields().ByNumber(number)
		switch {
		case field == nil:
			return fmt.Errorf("%s has a field of number %d, which this version does not know", of.Name(), number)
		case kind != wireType(field.Kind()):
			return fmt.Errorf("the field %s of %s is of another type here", field.Name(), of.Name())
		case field.Message() != nil:
			inner, _ := protowire.ConsumeBytes(value)
			if err := s.scan(field.Message(), inner, level+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// wireType returns how a field of a kind is written. Of numbers, there are those that the messages have.
func wireType(kind protoreflect.Kind) protowire.Type {
	switch kind {
	case protoreflect.BoolKind, protoreflect.EnumKind, protoreflect.Uint32Kind:
		return protowire.VarintType
	case protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.MessageKind:
		return protowire.BytesType
	}
	return -1 // none: the field is refused
}
