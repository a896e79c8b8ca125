"""The names of all numpy functions that can be overridden, sorted by what is done with them. `functions` does it."""

from __future__ import annotations


def _names(module: str, names: str) -> set[str]:
    return {f"{module}.{name}" for name in names.split()}


SHAPED = _names(
    "numpy",
    """
    moveaxis rollaxis expand_dims flip fliplr flipud rot90 split array_split hsplit vsplit dsplit atleast_1d
    atleast_2d atleast_3d unstack matrix_transpose iscomplexobj isrealobj common_type shape ndim size real imag
    """,
) | {"numpy.linalg.matrix_transpose"}

IN_PLACE = _names("numpy", "copyto put place putmask put_along_axis fill_diagonal") | {
    "numpy.lib.recfunctions.assign_fields_by_name"
}

# With `like=a`, these are asked for an array "like" a compressed one, but not told which axes are to be the item's.
_LIKE = _names(
    "numpy",
    """
    arange array asanyarray asarray ascontiguousarray asfortranarray empty eye frombuffer fromfile fromfunction
    fromiter fromstring full genfromtxt identity loadtxt ones require tri zeros
    """,
)
_SAVING = _names("numpy", "save savez savez_compressed")
REFUSED_FUNCTIONS = {
    **dict.fromkeys(_LIKE, "to make a compressed array, use compressed_array.zeros(...) or compress(array)"),
    **dict.fromkeys(_SAVING, "use compressed_array.save(path, a), or a.read() to save it uncompressed"),
}

DECODED = set().union(
    _names(
        "numpy",
        """
        allclose angle append apply_along_axis apply_over_axes argpartition argsort argwhere around array2string
        array_equiv astype average bincount block broadcast_arrays busday_count busday_offset can_cast choose
        clip column_stack compress concatenate convolve copy corrcoef correlate cov cross cumprod cumsum
        cumulative_prod cumulative_sum datetime_as_string delete diag diag_indices_from diagflat diagonal diff
        digitize dot dstack ediff1d einsum einsum_path extract fix flatnonzero geomspace gradient histogram
        histogram2d histogram_bin_edges histogramdd hstack i0 in1d inner insert interp intersect1d is_busday isclose
        iscomplex isin isneginf isposinf isreal ix_ kron lexsort linspace logspace median meshgrid nan_to_num
        nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod
        nanquantile nanstd nansum nanvar nonzero outer packbits pad partition percentile piecewise poly polyadd
        polyder polydiv polyfit polyint polymul polysub polyval quantile ravel_multi_index real_if_close repeat
        resize roll roots round savetxt searchsorted select setdiff1d setxor1d sinc sort sort_complex stack
        take_along_axis tensordot tile trace trapezoid tril tril_indices_from trim_zeros triu triu_indices_from
        union1d unique unique_all unique_counts unique_inverse unique_values unpackbits unravel_index unwrap
        vander vdot vstack where
        """,
    ),
    _names(
        "numpy.char",
        """
        equal greater greater_equal less less_equal not_equal
        """,
    ),
    _names(
        "numpy.fft",
        """
        fft fft2 fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft rfft2 rfftn
        """,
    ),
    _names(
        "numpy.lib.recfunctions",
        """
        append_fields apply_along_fields drop_fields find_duplicates join_by merge_arrays
        rec_append_fields rec_drop_fields rec_join recursive_fill_fields rename_fields repack_fields
        require_fields stack_arrays structured_to_unstructured unstructured_to_structured
        """,
    ),
    _names(
        "numpy.lib.scimath",
        """
        arccos arcsin arctanh log log10 log2 logn power sqrt
        """,
    ),
    # where those were up to numpy 2.2
    _names(
        "numpy.lib._scimath_impl",
        """
        arccos arcsin arctanh log log10 log2 logn power sqrt
        """,
    ),
    _names(
        "numpy.lib.stride_tricks",
        """
        sliding_window_view
        """,
    ),
    _names(
        "numpy.linalg",
        """
        cholesky cond cross det diagonal eig eigh eigvals eigvalsh inv lstsq matmul matrix_norm matrix_power
        matrix_rank multi_dot norm outer pinv qr slogdet solve svd svdvals tensordot tensorinv tensorsolve trace
        vecdot vector_norm
        """,
    ),
    _names(
        "numpy.polynomial.polynomial",
        """
        polygrid2d polyval2d
        """,
    ),
    _names(
        "numpy.strings",
        """
        _join _rsplit _split _splitlines capitalize center decode encode expandtabs ljust lower mod multiply
        partition replace rjust rpartition swapcase title translate upper zfill
        """,
    ),
)
