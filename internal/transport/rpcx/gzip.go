package rpcx

import (
	"compress/gzip"
	"io"
	"math"

	"connectrpc.com/connect"
)

// MaxBytes are the options that bound what one message costs. A compressed one is unpacked to its bound and no further:
// connect unpacks the rest to tell its size. No answer is packed, which a list of 500 kB would cost 5 ms for each
// caller that takes it so.
func MaxBytes(most int) connect.HandlerOption {
	const name = "gzip" // which connect has by itself
	return connect.WithHandlerOptions(
		connect.WithReadMaxBytes(most),
		connect.WithCompressMinBytes(math.MaxInt),
		connect.WithCompression(name,
			func() connect.Decompressor { return &boundedGzip{most: int64(most)} },
			func() connect.Compressor { return gzip.NewWriter(io.Discard) },
		),
	)
}

// boundedGzip ends after one byte more than a message may have.
type boundedGzip struct {
	gzip.Reader
	most, left int64
}

// Reset implements connect.Decompressor.
func (b *boundedGzip) Reset(from io.Reader) error {
	b.left = b.most + 1
	return b.Reader.Reset(from)
}

// Read implements io.Reader.
func (b *boundedGzip) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.EOF
	}
	n, err := b.Reader.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
