// Package env parses environment variables into a configuration struct. The
// Markdown table, the --help text and the configuration log line are generated from
// the same struct.
//
//	type Config struct {
//		Port     int           `env:"PORT" envDefault:"3000" doc:"Port to listen on."`
//		Key      string        `env:"SVC_KEY,required" secret:"true" doc:"Organization key."`
//		Database Database      `envPrefix:"DATABASE_"`
//	}
//
// The tags env (with the options required, notEmpty, file, expand), envDefault,
// envSeparator and envPrefix are those of caarlos0/env; doc and secret are this
// package's. A struct field without an env tag is a group.
package env

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"
)

// Validator is implemented by configurations with rules across variables. Parse
// calls Validate after it has parsed all variables.
type Validator interface {
	Validate() error
}

// Error lists all problems of an environment.
type Error struct {
	Problems []Problem
}

// Problem is an invalid variable.
type Problem struct {
	Variable string
	Reason   string // without the value of a secret
}

// Error implements error, with one line per variable.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("invalid environment:")
	for _, p := range e.Problems {
		fmt.Fprintf(&b, "\n  %s: %s", p.Variable, p.Reason)
	}
	return b.String()
}

// Parse parses a T from environ, or from the process environment if environ is
// nil. It returns an *Error with all invalid variables, or the wrapped error of
// T's Validate. An empty variable has its default value.
func Parse[T any](environ map[string]string) (T, error) {
	var config T
	if environ == nil {
		environ = env.ToMap(os.Environ())
	}
	root := reflect.ValueOf(&config).Elem()
	var problems []Problem
	for _, v := range variables(root.Type(), "", nil) {
		if err := v.read(root.FieldByIndex(v.index), environ); err != nil {
			problems = append(problems, Problem{Variable: v.name, Reason: v.parseErrorReason(err)})
		}
	}
	if len(problems) > 0 {
		return config, &Error{Problems: problems}
	}
	if validator, ok := any(&config).(Validator); ok {
		if err := validator.Validate(); err != nil {
			return config, fmt.Errorf("invalid environment: %w", err)
		}
	}
	return config, nil
}

// variable is an environment variable of a configuration struct.
type variable struct {
	name   string
	prefix string
	field  reflect.StructField
	index  []int // of the field, from the outermost struct
}

// variables returns the variables of a struct type in the order of its fields.
func variables(structure reflect.Type, prefix string, at []int) []variable {
	var all []variable
	for i := range structure.NumField() {
		field := structure.Field(i)
		index := append(slices.Clone(at), i)
		name, _, _ := strings.Cut(field.Tag.Get("env"), ",")
		switch {
		case !field.IsExported() || name == "-":
		case name != "":
			all = append(all, variable{name: prefix + name, prefix: prefix, field: field, index: index})
		case field.Type.Kind() == reflect.Struct:
			all = append(all, variables(field.Type, prefix+field.Tag.Get("envPrefix"), index)...)
		}
	}
	return all
}

func (v variable) doc() string { return v.field.Tag.Get("doc") }

func (v variable) secret() bool { return v.field.Tag.Get("secret") == "true" }

func (v variable) required() bool {
	options := strings.Split(v.field.Tag.Get("env"), ",")[1:]
	return slices.Contains(options, "required") || slices.Contains(options, "notEmpty")
}

func (v variable) defaultValue() string { return v.field.Tag.Get("envDefault") }

// read parses one variable into target. The library's errors name the Go field,
// so each variable is parsed on its own to know its name.
func (v variable) read(target reflect.Value, environ map[string]string) error {
	alone := reflect.New(reflect.StructOf([]reflect.StructField{{Name: v.field.Name, Type: v.field.Type, Tag: v.field.Tag}}))
	err := env.ParseWithOptions(alone.Interface(), env.Options{Environment: environ, Prefix: v.prefix})
	if err != nil {
		return err
	}
	target.Set(alone.Elem().Field(0))
	return nil
}

// parseErrorReason converts the library's error to a message without the values
// of secrets.
func (v variable) parseErrorReason(err error) string {
	if _, ok := errors.AsType[env.VarIsNotSetError](err); ok {
		return "is required"
	}
	if _, ok := errors.AsType[env.EmptyVarError](err); ok {
		return "must not be empty"
	}
	reason := fmt.Sprintf("not a valid %s", typeName(v.field.Type))
	if v.secret() {
		return reason
	}
	if parse, ok := errors.AsType[env.ParseError](err); ok {
		return reason + ": " + parse.Err.Error()
	}
	return err.Error()
}

// typeName returns a readable name of a type.
func typeName(t reflect.Type) string {
	switch {
	case t.String() == "time.Duration":
		return `duration, such as "30s"`
	case t.String() == "url.URL" || t.String() == "*url.URL":
		return "URL"
	case t.PkgPath() != "":
		return strings.ToLower(t.Name())
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "whole number from 0"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Bool:
		return "boolean, true or false"
	case reflect.Slice:
		return "list, each entry a " + typeName(t.Elem())
	case reflect.Pointer:
		return typeName(t.Elem())
	}
	return t.String()
}
