use super::*;

fn samples() -> Vec<Vec<u8>> {
    let mut rng = 12345u64;
    let mut noise = |n: usize| -> Vec<u8> {
        (0..n)
            .map(|_| {
                rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (rng >> 56) as u8
            })
            .collect()
    };
    vec![
        Vec::new(),
        b"a".to_vec(),
        vec![7; 100],
        vec![0; 1 << 20],
        b"the quick brown fox ".repeat(200),
        noise(1000),
        noise(5000),
        [noise(500), vec![1; 5000], noise(300)].concat(),
        (0..70_000u32).flat_map(|i| (i / 7).to_le_bytes()).collect(),
    ]
}

const WRITTEN: [CompressionType; 5] = [
    CompressionType::Snappy,
    CompressionType::Zlib,
    CompressionType::Lz4,
    CompressionType::Lz4hc,
    CompressionType::Zstd,
];

#[test]
fn every_codec_gives_back_what_it_took() {
    for kind in WRITTEN {
        let mut compressor = Compressor::new(kind, &CompressionOptions::default()).unwrap();
        let decompressor = Decompressor::new(5);
        for sample in samples() {
            let mut out = b"before".to_vec();
            let stored = compressor.compress(&sample, &mut out).unwrap();
            assert!(out.starts_with(b"before"));
            let body = &out[6..];
            if stored {
                assert!(body.len() <= sample.len() - sample.len() / 8);
                assert_eq!(decompressor.decompress(kind, body).unwrap(), sample, "{kind:?}");
            } else {
                assert!(body.is_empty());
            }
            let easy = sample.len() > 50 && sample.iter().all(|b| *b == sample[0]);
            assert!(!easy || stored, "{kind:?} did not compress {} equal bytes", sample.len());
        }
    }
}

#[test]
fn every_damaged_block_is_noticed_or_harmless() {
    let sample = b"the quick brown fox jumps over the lazy dog. ".repeat(40);
    for kind in WRITTEN {
        let mut stored = Vec::new();
        let mut compressor = Compressor::new(kind, &CompressionOptions::default()).unwrap();
        assert!(compressor.compress(&sample, &mut stored).unwrap());
        for i in 0..stored.len() {
            for bit in [0, 3, 7] {
                stored[i] ^= 1 << bit;
                match Decompressor::new(5).decompress(kind, &stored) {
                    Ok(out) => assert!(out.len() <= 256 * stored.len() + 1024),
                    Err(e) => assert!(e.is_corruption(), "{e}"),
                }
                stored[i] ^= 1 << bit;
            }
        }
        for n in 0..stored.len() {
            assert!(Decompressor::new(5).decompress(kind, &stored[..n]).is_err(), "{kind:?} cut at {n}");
        }
    }
}

#[test]
fn a_boastful_size_is_refused_before_allocation() {
    for kind in [CompressionType::Zlib, CompressionType::Lz4, CompressionType::Zstd, CompressionType::Bzip2] {
        let boast = [0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 1, 2, 3];
        assert!(Decompressor::new(5).decompress(kind, &boast).unwrap_err().is_corruption());
    }
    assert!(
        Decompressor::new(5).decompress(CompressionType::Snappy, &[0xFF, 0xFF, 0xFF, 0xFF, 0x0F]).is_err()
    );
}

#[test]
fn unwritable_kinds_say_so() {
    for kind in CompressionType::ALL {
        assert_eq!(
            Compressor::new(kind, &CompressionOptions::default()).is_ok(),
            kind.can_write(),
            "{kind:?}"
        );
    }
    assert!(CompressionType::from_u8(0x80).is_err());
}

#[test]
fn what_is_compressed_with_xpress_is_refused_by_name() {
    let stored = [4, b'a', b'b', b'c', b'd'];
    let error = Decompressor::new(5).decompress(CompressionType::Xpress, &stored).unwrap_err();
    assert_eq!(error.kind(), esker_base::ErrorKind::NotSupported);
    assert!(error.message().contains("Xpress"), "{error}");
}
