package gcsblob

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"gocloud.dev/blob/driver"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/storage/v1"
)

// defaultChunkSize is how much of an upload is in memory, to send it again after a
// failure.
const defaultChunkSize = 4 << 20

// reader implements driver.Reader.
type reader struct {
	io.ReadCloser
	attributes driver.ReaderAttributes
}

// Attributes implements driver.Reader.
func (r *reader) Attributes() *driver.ReaderAttributes { return &r.attributes }

// As implements driver.Reader.
func (*reader) As(any) bool { return false }

// NewRangeReader implements driver.Bucket.
func (b *bucket) NewRangeReader(ctx context.Context, key string, offset, length int64, opts *driver.ReaderOptions) (driver.Reader, error) {
	if opts.BeforeRead != nil {
		if err := opts.BeforeRead(noAs); err != nil {
			return nil, err
		}
	}
	if length == 0 { // HTTP has no empty range
		return b.emptyReader(ctx, key)
	}
	call := b.objects.Get(b.name, key).Context(ctx)
	switch {
	case length > 0:
		call.Header().Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	case offset > 0:
		call.Header().Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	response, err := call.Download()
	if err != nil {
		return nil, err
	}
	size, err := contentSize(response)
	if err != nil {
		_ = response.Body.Close()
		return nil, err
	}
	modified, _ := http.ParseTime(response.Header.Get("Last-Modified"))
	return &reader{response.Body, driver.ReaderAttributes{
		ContentType: response.Header.Get("Content-Type"), ModTime: modified, Size: size,
	}}, nil
}

func (b *bucket) emptyReader(ctx context.Context, key string) (driver.Reader, error) {
	a, err := b.Attributes(ctx, key)
	if err != nil {
		return nil, err
	}
	return &reader{http.NoBody, driver.ReaderAttributes{ContentType: a.ContentType, ModTime: a.ModTime, Size: a.Size}}, nil
}

// contentSize returns the size of the whole object of a response, which may have a part
// of it.
func contentSize(response *http.Response) (int64, error) {
	if _, total, found := strings.Cut(response.Header.Get("Content-Range"), "/"); found {
		size, err := strconv.ParseInt(total, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("the size of an object: %w", err)
		}
		return size, nil
	}
	return response.ContentLength, nil
}

// writer implements driver.Writer: it sends what is written until Close.
type writer struct {
	*io.PipeWriter
	result chan error
}

// NewTypedWriter implements driver.Bucket.
func (b *bucket) NewTypedWriter(ctx context.Context, key, contentType string, opts *driver.WriterOptions) (driver.Writer, error) {
	if key == "" {
		return nil, errors.New("the key is empty")
	}
	object := &storage.Object{
		Name: key, CacheControl: opts.CacheControl, ContentDisposition: opts.ContentDisposition, ContentEncoding: opts.ContentEncoding,
		ContentLanguage: opts.ContentLanguage, ContentType: contentType, Metadata: opts.Metadata,
	}
	if len(opts.ContentMD5) > 0 {
		object.Md5Hash = base64.StdEncoding.EncodeToString(opts.ContentMD5)
	}
	if opts.BeforeWrite != nil {
		if err := opts.BeforeWrite(noAs); err != nil {
			return nil, err
		}
	}
	size := defaultChunkSize
	if opts.BufferSize > 0 {
		size = opts.BufferSize
	}
	call := b.objects.Insert(b.name, object).Context(ctx)
	if opts.IfNotExist {
		call.IfGenerationMatch(0)
	}
	pipeReader, pipeWriter := io.Pipe()
	w := &writer{pipeWriter, make(chan error, 1)}
	go func() {
		defer context.AfterFunc(ctx, func() { pipeReader.CloseWithError(ctx.Err()) })() // ends a Read
		_, err := call.Media(pipeReader, googleapi.ContentType(contentType), googleapi.ChunkSize(size)).Do()
		pipeReader.CloseWithError(err) // ends a Write
		w.result <- err
	}()
	return w, nil
}

// Close implements driver.Writer: it returns when the object exists.
func (w *writer) Close() error {
	_ = w.PipeWriter.Close() // never returns an error
	return <-w.result
}

// decodeMD5 returns nil for composed objects, which have no MD5.
func decodeMD5(text string) []byte {
	sum, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(sum) == 0 {
		return nil
	}
	return sum
}
