package xds

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
)

// maxText bounds the text of a resource, as a file of [envoy.Directory] is bounded.
const maxText = 8 << 20

var errLong = fmt.Errorf("as a file it has more than %d bytes", maxText)

// renderer writes a resource as the file with the same fields, in JSON, which is YAML. It knows none of the rules: each field
// that a message has is written under its own name, and the reader of files takes it or says that it does not know it. So no
// field is lost, not even one that comes with a newer version of the message.
type renderer struct{ b []byte }

// message writes a message as a map of the fields that it has.
func (r *renderer) message(m protoreflect.Message) error {
	if metadata, ok := m.Interface().(*structpb.Struct); ok {
		return r.values(metadata)
	}
	fields := m.Descriptor().Fields()
	sep := "{"
	for i := range fields.Len() {
		field := fields.Get(i)
		if !m.Has(field) && !isCount(m, field) || isName(m, field) {
			continue
		}
		r.b = append(r.b, sep...)
		sep = ", "
		r.text(string(field.Name()))
		r.b = append(r.b, ": "...)
		if err := r.field(field, m.Get(field)); err != nil {
			return err
		}
	}
	if sep == "{" {
		r.b = append(r.b, sep...)
	}
	r.b = append(r.b, '}')
	return nil
}

// isCount reports whether a field is the number of requests of a limit. 0 of them are not written on the wire, and deny
// everything: a limit has to say so in a file.
func isCount(m protoreflect.Message, field protoreflect.FieldDescriptor) bool {
	if field.Name() != "requests_per_unit" {
		return false
	}
	unlimited := m.Descriptor().Fields().ByName("unlimited")
	return unlimited == nil || !m.Get(unlimited).Bool()
}

// isName reports whether a field is the name of a resource, which is that of the file.
func isName(m protoreflect.Message, field protoreflect.FieldDescriptor) bool {
	return field.Name() == "name" && m.Descriptor().FullName() == resourceType
}

// field writes the value of a field.
func (r *renderer) field(field protoreflect.FieldDescriptor, value protoreflect.Value) error {
	if len(r.b) > maxText {
		return errLong
	}
	switch {
	case field.IsMap():
		return fmt.Errorf("the field %s is a map, which is not read", field.Name())
	case !field.IsList():
		return r.value(field, value)
	}
	list := value.List()
	r.b = append(r.b, '[')
	for i := range list.Len() {
		if i > 0 {
			r.b = append(r.b, ',')
		}
		if field.Name() == "descriptors" { // each has a line, which errors name
			r.b = append(r.b, '\n')
		}
		if err := r.value(field, list.Get(i)); err != nil {
			return err
		}
	}
	r.b = append(r.b, ']')
	return nil
}

// value writes one value.
func (r *renderer) value(field protoreflect.FieldDescriptor, value protoreflect.Value) error {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return r.message(value.Message())
	case protoreflect.StringKind:
		r.text(value.String())
	case protoreflect.BoolKind:
		r.b = strconv.AppendBool(r.b, value.Bool())
	case protoreflect.Uint32Kind:
		r.b = strconv.AppendUint(r.b, value.Uint(), 10)
	case protoreflect.EnumKind:
		word := strconv.Itoa(int(value.Enum()))
		if known := field.Enum().Values().ByNumber(value.Enum()); known != nil {
			word = strings.ToLower(string(known.Name()))
		}
		r.text(word)
	default:
		return fmt.Errorf("the field %s is of a kind that is not read, %s", field.Name(), field.Kind())
	}
	return nil
}

// values writes what metadata holds, in the order of names.
func (r *renderer) values(of *structpb.Struct) error {
	r.b = append(r.b, '{')
	for i, name := range sortedKeys(of.GetFields()) {
		if i > 0 {
			r.b = append(r.b, ", "...)
		}
		r.text(name)
		r.b = append(r.b, ": "...)
		if err := r.any(of.GetFields()[name]); err != nil {
			return err
		}
	}
	r.b = append(r.b, '}')
	return nil
}

func (r *renderer) any(v *structpb.Value) error {
	if len(r.b) > maxText {
		return errLong
	}
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NullValue:
		r.b = append(r.b, "null"...)
	case *structpb.Value_BoolValue:
		r.b = strconv.AppendBool(r.b, kind.BoolValue)
	case *structpb.Value_NumberValue:
		r.number(kind.NumberValue)
	case *structpb.Value_StringValue:
		r.text(kind.StringValue)
	case *structpb.Value_StructValue:
		return r.values(kind.StructValue)
	case *structpb.Value_ListValue:
		r.b = append(r.b, '[')
		for i, item := range kind.ListValue.GetValues() {
			if i > 0 {
				r.b = append(r.b, ", "...)
			}
			if err := r.any(item); err != nil {
				return err
			}
		}
		r.b = append(r.b, ']')
	default:
		return errors.New("metadata has a value that is nothing, not even null")
	}
	return nil
}

// number writes a number. The reader refuses those that JSON does not have, which YAML has words for.
func (r *renderer) number(f float64) {
	switch text := strconv.FormatFloat(f, 'g', -1, 64); text {
	case "NaN":
		r.b = append(r.b, ".nan"...)
	case "+Inf", "-Inf":
		r.b = append(r.b, text[0])
		r.b = append(r.b, ".inf"...)
	default:
		r.b = append(r.b, text...)
	}
}

// text writes a text in quotes. Everything beyond ASCII is escaped: YAML takes some of it for the end of a line, and refuses some.
func (r *renderer) text(text string) {
	r.b = append(r.b, '"')
	written := 0
	for i, c := range text {
		if c >= ' ' && c <= '~' && c != '"' && c != '\\' {
			continue
		}
		r.b = append(r.b, text[written:i]...)
		written = i + utf8.RuneLen(c)
		switch {
		case c == '"' || c == '\\':
			r.b = append(r.b, '\\', byte(c))
		case c < 1<<8:
			r.hex('x', c, 2)
		case c < 1<<16:
			r.hex('u', c, 4)
		default:
			r.hex('U', c, 8)
		}
		if len(r.b) > maxText { // which is said of what follows
			return
		}
	}
	r.b = append(append(r.b, text[written:]...), '"')
}

// hex writes a character by its number.
func (r *renderer) hex(kind byte, c rune, digits int) {
	r.b = append(r.b, '\\', kind)
	for digit := digits - 1; digit >= 0; digit-- {
		r.b = append(r.b, "0123456789abcdef"[c>>(4*digit)&15])
	}
}
