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

/// Codecs of this build. Their damaged blocks expand to at most 256 times their size; bzip2's do
/// not.
fn written() -> impl Iterator<Item = CompressionType> {
    CompressionType::ALL.into_iter().filter(|kind| {
        !matches!(kind, CompressionType::None | CompressionType::Bzip2 | CompressionType::ZstdNotFinal)
            && kind.is_built_in()
    })
}

#[test]
fn every_codec_gives_back_what_it_took() {
    for kind in written() {
        let mut compressor = Compressor::new(kind, &CodecOptions::default()).unwrap();
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
    for kind in written() {
        let mut stored = Vec::new();
        let mut compressor = Compressor::new(kind, &CodecOptions::default()).unwrap();
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
    let sized = [CompressionType::Zlib, CompressionType::Lz4, CompressionType::Zstd, CompressionType::Bzip2];
    for kind in sized.into_iter().filter(|kind| kind.is_built_in()) {
        let boast = [0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 1, 2, 3];
        assert!(Decompressor::new(5).decompress(kind, &boast).unwrap_err().is_corruption());
    }
    assert!(
        Decompressor::new(5).decompress(CompressionType::Snappy, &[0xFF, 0xFF, 0xFF, 0xFF, 0x0F]).is_err()
    );
}

#[test]
fn a_codec_that_is_not_built_in_is_refused_by_the_name_of_its_feature() {
    for kind in CompressionType::ALL.into_iter().filter(|kind| !kind.is_built_in()) {
        for error in [
            Compressor::new(kind, &CodecOptions::default()).unwrap_err(),
            Decompressor::new(5).decompress(kind, &[4, 1, 2, 3, 4]).unwrap_err(),
            Decompressor::new(1).decompress(kind, b"").unwrap_err(),
        ] {
            assert_eq!(error.kind(), esker_base::ErrorKind::NotSupported, "{kind:?}: {error}");
            assert!(error.message().contains(kind.feature().unwrap_or(kind.property_name())), "{error}");
        }
    }
}

#[test]
fn unwritable_kinds_say_so() {
    for kind in CompressionType::ALL {
        assert_eq!(Compressor::new(kind, &CodecOptions::default()).is_ok(), kind.is_built_in(), "{kind:?}");
    }
    assert!(CompressionType::from_u8(0x80).is_err());
}

#[test]
fn a_block_is_stored_compressed_if_enough_is_saved() {
    // Most of it can be saved, with every codec.
    let contents = samples().remove(7);
    let stored_at = |kind, max_compressed_bytes_per_kb| {
        let options = CodecOptions { max_compressed_bytes_per_kb, ..CodecOptions::default() };
        let mut out = Vec::new();
        let stored = Compressor::new(kind, &options).unwrap().compress(&contents, &mut out).unwrap();
        stored.then_some(out.len())
    };
    for kind in written() {
        let size = stored_at(kind, CodecOptions::MAX_COMPRESSED_BYTES_PER_KB).unwrap();
        let exact = i32::try_from((size * 1024).div_ceil(contents.len())).unwrap();
        assert_eq!(stored_at(kind, exact), Some(size), "{kind:?}");
        assert_eq!(stored_at(kind, exact - 2), None, "{kind:?}");
        assert_eq!((stored_at(kind, 0), stored_at(kind, -1)), (None, None), "{kind:?}");
        assert_eq!(stored_at(kind, i32::MAX), Some(size), "{kind:?}");
    }
}

#[test]
#[cfg(feature = "zstd")]
fn a_zstd_frame_has_a_checksum_if_the_options_say_so() {
    let contents = b"gravel and sand ".repeat(100);
    let frame = |checksum| {
        let options = CodecOptions { checksum, ..CodecOptions::default() };
        let mut out = Vec::new();
        assert!(
            Compressor::new(CompressionType::Zstd, &options).unwrap().compress(&contents, &mut out).unwrap()
        );
        out
    };
    let (plain, mut checked) = (frame(false), frame(true));
    assert_eq!(checked.len(), plain.len() + 4);
    // Behind the size and the magic number, bit 2 of the descriptor says so.
    assert_eq!((plain[2 + 4] & 4, checked[2 + 4] & 4), (0, 4));
    let decompressed = |block: &[u8]| Decompressor::new(5).decompress(CompressionType::Zstd, block);
    assert_eq!(decompressed(&checked).unwrap(), contents);
    *checked.last_mut().unwrap() ^= 1;
    assert!(decompressed(&checked).unwrap_err().is_corruption());
}
