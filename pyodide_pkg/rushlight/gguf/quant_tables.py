"""Codebooks of the IQ types: which short vectors of weights a block may hold.

A grid is a list of 16-bit words in ascending order. A word holds the codes of its values, lowest
bits first: eight codes of 2 bits (IQ1, IQ2), or four codes of 3 bits in a nibble each (IQ3). What
a code is worth is arithmetic, see ``quants_iq``. The words themselves also go to the GPU.

Grids are facts of the format. Here a grid is the base85 text of the deflated steps between its
words, all low bytes before all high bytes; together they are under 4 KB of source.
"""

from __future__ import annotations

import base64
import zlib
from functools import cache

import numpy as np
from numpy.typing import NDArray

_IQ2_XXS = (
    "c-muNVrFJyXXasIV-jcP;oxMJVd9X8XXatmb`i;7Qb?$0<`D#nu}LU0^N7R%X*FeW!3uT*7ljyBpok<;r&*27A)&WGb@"
    "B=-JgnIq5(ZpqOB8o=NU*Ay&+wWj_L`Z;z_Ffn_Qv&099FXOOv~kWF#QLLiLG)})~S#v*{~O4F$W(P(2@cLM|sv7ehWU"
    "K85|M`l9fVt7=db8cSmq49`-Ka;N)OW;Ha@ndi$TL;(PEKK@RUbC;splXv_#b?6H8Ao2h8uJ|+%x$0iYtiyuI~P*~vRS"
    "8A@Xh>7<zkBCfSY1Yx*N=m#2^B?({wtSbc*up>nFcK-lid&iyiyD|1Bap!;ir)ezthO*Bl(52ufP5x#Yz|~(WJIW9U}R"
    "=s1Dnjk003HUK5z"
)
_IQ2_XS = (
    "c-muNVrFJyXJ%q%2Qnm~G$*qRm}F&7go*%_K!kWWB$;^%AWTJO9#(Cxax_g$T#Cpl1mzo<dBmicoN6G(@UY4N4bf2G3T"
    "NgqaO5ag;K<`jL^FbiOB~q<0}-Zdps@xD3t&R5>>@HiV+{_7nC@WaVbT*Zs$xxi9T5(-0;ESF5lC>z&Q^-kh-BuG6hGi"
    "7=$;|j6UD(KW@;>TOrt^~iH!->?J(CN*~}^%4>Vs~`~WmOz^=(<<`I#JO5?KP*$7g?&o@udm`8H<A4C8dG=hSLX`f44I"
    "4A@Z6cyq*DmZ4kTgHp%@_RO_F*(<O4B}H!4p&k0$P@czz#1Q$x%;6X-#kPB7%-_Zg@gPp$gx}@fk}=7=np1lZ3WG8m&D"
    "?rX&kbqYD{WzGI1PyLO>Y<F})fkr%%S^toA${7t@*63xqB{<Gp~1jY*8FY$Jzn6cd|Ln8Je43&uraOl%b#F%3+Mn9?N~"
    "C<cs_t7E0W2u8x@Fyb^qltNE367&Tlb}l0;k_beQiJ*%Zv6_TtHCz!BHa9VXArb%pLe@(Q"
)
_IQ2_S = (
    "c-qZV&r1S96n1BLt~(4$hgR1XwI4<pffPhVbm$OBHzC$S*y<2PKkyPkbTQ~Zh;E*RZguMr_^0(|XJ?%??I8W~;EZqH``"
    "-6`@0lQ!5|a{Y;>8J13(stDasV$1y5W-vn8^v{v?-HVHi#|)u(Usbp}<{PXazMg2wFpl&5uGLai6BV6?KGcKNT{zC;C&"
    "XC=)ZS37Srl`Pyl}d0v%DT`b-@CRX;oq+kL^bWWG_&Lc?b0l`#Ju2#HIX;D4iMOn`JF|XRsx+>I>aT$|}cu}|-;IUki<"
    "oOyY>?`AjG_&(<?C5kQ=ZzAAJY46t=g3V+QK-$wrofdEmNu8TI$<q$p-+CKXP>RWRS3Nc%qTa}RsDTVf3?r?s}~>Cz)Z"
    "ey+R3(uJ@?_;!k}LCo6QTedd|fxTFSyz`ozgOM_#)=XdqQqs9Zf>QogrxTFLo-kc`XXswL#X@@PbG7>);Eipz^4SsccZ"
    "-3TE)Il#J4H_Pv<WTE6sJg&<QQdk#@P7Ve<Y*_wIp(Es;c{OXRCH{yhoJ2kKRPLm3lNw2}NW5B`YC3Cgh1=KVdt#I1;Y"
    "{MYKgM5z!GDlpd@oC5oRrD`GEd_tXJ(9<1LIT~>X`fmk}w8l6g1$=B15nK07}YE2m"
)
_IQ3_XXS = (
    "c-ozgu}Z{15QZ;5%W_MMOIVhJkQ<k9U08yom*d)y!rn)UM+&VhRJ06om5m-Ty+x4g#rPb8iG|pR!GVF9;hS$}0(f8o(m"
    "zDemy)@VDlGf4gaivX6<k1NHw#aND0pn%lZwI8)j;<NB{q-}uR||aYml$a1<P6%#b<MR`huA2*Fdk9DHA1Ruhc?UlAW-"
    "IHj5xVg-RZWi&lGsLg4|Pw&pVWn8j-zrgdand#eZ`n^!Yo`1MhptA^~k3+j@j<R+<USsrf{%gW?nN1Xv}m-qQI-*57_m"
    "O4O0W*5Aq-km1fm>SXE<liwJ13BZc0UTqTezSjVIzNZbuMaz)6a+VL"
)
_IQ3_S = (
    "c-qyG&u-H|5QppEjNN$u%*tzrsv)-HURy*XaYIP(c(jmMZEpxv3AnYT;R=V`i&Vioa729t#^D7xAP{@l)sAMq`F3_INe"
    "Fq8048DaAQ*TAqURcO30q>rp=Q5G7&(z;%Q7U@)C*e#kT{GDAD3)Mgrq&e6zql3`csRhYnRwWYQESo0p!{N4Q#PUK!$x"
    "F323sTs4lFKXycM7C&_a5ot&ytji4r%o6Po>sm7;4v~r#FzmR|hD|tA_IpG*W>hHATnrH&QZ6Z(T1;`acsoZ;&?NT5&r"
    "=>5(d0F>JCy(4aH#VjJ7zUtjIujG62ZBn>A|FMGn63hQ?N)%L=_Pfc6Mh{~`WWlC`)k!LZ}cThHiX$pYP4Od*9-X6MZa"
    "U^%nuHHgS|4JpJDQB)g4@?_e)ucBDJoPm)blOPZve>S^Xi+cWPhBf~K+hQtjhzjplBc?1S^!_LHkUDZTWSZ@)L~8=4=y"
    "fBY3cn08T_O3p*s;xoC-hHiC8&6R%j;kViP;qBJnT%-R8JNj3I(Vxrx4b)FXPCq#"
)
_IQ1_S = (
    "c-qxf?QYvf5X^p&C-N*>NK@JpW!ZoWr*V+iQECxzfCi3h$LKTk%{zNXN^;v@O#nFt1mDNr?(FRB@)e74sWlh8h{DYRi`"
    "sWLgso8BnM}k=VP5+EX1rg-P+N;dsaoRS7hHBBT1D?e?1iYoL2FhJ)>3+y_E-_iw~zK#B8~!?bW!Zf&a3SpY;aRk*N|f"
    "I7HHyr^q>oOnznb8EG0TvQrOno<AH|-`VJ_F9fqx@66MJgEpQ`T@ygTcO=<uQwou}X5x1R{>hQ7G-<*VPCRo+UBc;QZn"
    "S^tyRIsG{-I2}H4cssV@%v7LG<I)I=lCqWVkcqt$OxfJ_Rz_X*(wkcF!^*e<+C9jXUz02GXX3E730=Pi%Yhcsb1BE#J="
    "2?*d%u2ZqtC$RZf*7c(9<KV+?I(5vLcPKl~u0n#+j#))W?8Rd>5W$jpQPjNffQ=nK4c<#Y&K(`L9zf%gh)&7}v0=MNU_"
    "#wkEZCrr9QBUC%jC=lGx?_Q*CCRW*bJ?nqc<G~D7gPA!sfcBBbDw(zEzf+#5Cpq0R3(srSI;92;yAE;cG@L2~j99l(tz"
    "MR;Gm)wTrg|kU)XjKqR%St=MYK!U-SFuHd-9cC&-$z(^9YvXMmfXJHQ#4Z!9{7vdVuO4IbX;rEOQ=floDRfhRh~%jyfw"
    "<pD5<sH0u$9$;ncN)`rX@a<_E`OZ$=?!fnHjui;C_P2z2h6%X<qtxq&R*+JG*Nh`JBi%kMAlgT3234!1PjJkw(b&B1;Q"
    "$JA+=|#NNBP)y`31o=_mrOeeNhqI_c%!9uWjT4%^hrdKRM2Cn6ISyg_)NGrxgtYDhF_q(ugF7ztxcnEY}pmg*ipD9`qZ"
    "*=Jt{~N5liIn^S}Yzl(8<DP}-ax7bYiY;0iuUW&MiOAlEW<v7BxI!X?y#S)L4aJ>jB81@+$eR~W)kMY^0S$D6TfT%pg}"
    "#<v}e*(rt$I`r}0RJ=m}ZLJ?LGLO{tcWw6pN{k+V?0}@YJW-~Pmb_x%DD<d{IH~&4OY5^YYP-eY&68)Bk1M&DJ)6qH@A"
    "jG;CB)~$TbCBOg@&2u6>F`gEa(+SNqyFPtkr-@x`tnW^k$Ojyc#qFdsurThqa9pH>gtkUpkUW7JT8AUZV(F7D-Ir?NR1"
    "z6qq2S9$9p#9m-MBxzDQGj3Q0v`Bo@C7F+*vp<cJg$E%dh<kB1QVV?xK+OhyG!|i(s>DzZvv&tU@7n8|9hvJ{8LDcbM("
    "fu{BFbsm2=NUTS$<xpkdy{bB%gS7yJc{P(S@Z@Yy=%<nbyYm<Otw{e^}YV+V2|-<2StB~cy?G2--iFqi?7zVN3fR<@rO"
    "odFPk_zV0*lPf&9H1fPNUY9{LmXKcD{%H@{H@"
)
_GRIDS = {
    "IQ2_XXS": _IQ2_XXS,
    "IQ2_XS": _IQ2_XS,
    "IQ2_S": _IQ2_S,
    "IQ3_XXS": _IQ3_XXS,
    "IQ3_S": _IQ3_S,
    "IQ1_S": _IQ1_S,
    "IQ1_M": _IQ1_S,
}

#: Worth of the sixteen codes of IQ4_NL and IQ4_XS.
IQ4_VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
#: Worth of the sixteen codes of MXFP4: the E2M1 numbers, doubled. Its minus zero counts as zero.
MXFP4_VALUES = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


@cache
def grid_words(name: str) -> NDArray[np.uint16]:
    """The words of a type's grid, in ascending order; not to be written to."""
    packed = np.frombuffer(zlib.decompress(base64.b85decode(_GRIDS[name])), np.uint8)
    low, high = packed.reshape(2, -1).astype(np.uint16)
    words = np.cumsum(low | (high << np.uint16(8)), dtype=np.uint16)
    words.flags.writeable = False
    return words


def grid_bytes(name: str) -> bytes:
    """A grid as the GPU reads it: little-endian 16-bit words."""
    return grid_words(name).astype("<u2").tobytes()


@cache
def grid_codes(name: str, n_values: int) -> NDArray[np.uint8]:
    """The codes of a grid, [n_words, n_values]; not to be written to."""
    width = 16 // n_values
    shifts = np.arange(n_values, dtype=np.uint16) * np.uint16(width)
    codes = (grid_words(name)[:, None] >> shifts) & np.uint16((1 << width) - 1)
    result = codes.astype(np.uint8)
    result.flags.writeable = False
    return result
